#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/lock_file.h"

namespace trireme::observe {

struct RunFolderOptions {
  std::filesystem::path path = {};  ///< the folder itself; empty = `root`/`name`
  std::filesystem::path root = "runs";
  std::string name = {};      ///< one word, no path; empty = generated from time and model
  std::string model = "run";  ///< for the generated name: `20260301-091502-lenet`
  bool overwrite = false;     ///< remove the files of an existing run
  std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
};

/// The folder that holds everything a run writes. Knows names and places, and who may begin a run there: whoever
/// creates or reopens it holds it, as long as a copy of the object or the process lives, and nobody else can.
class RunFolder {
 public:
  /// Creates the folder of a new run, and holds it. A generated name is always new (`…-2` if needed). Throws
  /// InvalidArgument if another process holds the folder, if it already holds a run and `overwrite` is not set, or if
  /// `name` is not a plain name; IoError. Overwriting removes only files that a run writes; other files stay.
  static RunFolder create(const RunFolderOptions& options);

  /// Opens the folder of an existing run to continue it, and holds it. Throws InvalidArgument if there is none, or if
  /// another process holds it, and says which.
  static RunFolder reopen(const std::filesystem::path& path);

  /// Opens the folder of an existing run: for processes that were told where it is, and do not hold it. Throws
  /// InvalidArgument if there is none.
  static RunFolder open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path tensorboard() const { return path_ / "tensorboard"; }
  std::filesystem::path logs() const { return path_ / "logs"; }
  std::filesystem::path model() const { return path_ / "model.safetensors"; }
  std::filesystem::path result() const { return path_ / "result.json"; }
  std::filesystem::path timeline() const { return path_ / "timeline.json"; }
  std::filesystem::path timeline_parts() const { return path_ / "timeline"; }  ///< by process
  std::filesystem::path profile() const { return path_ / "profile"; }          ///< of operations: TrainOptions
  std::filesystem::path outcome() const { return path_ / "outcome.json"; }     ///< how the last launch ended
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path config() const { return path_ / "config.toml"; }
  std::filesystem::path data() const { return path_ / "data.json"; }        ///< how its data is encoded: data::Encoding
  std::filesystem::path program() const { return path_ / "program.json"; }  ///< of `trireme run`: its words
  std::filesystem::path trainer() const { return path_ / "trainer.json"; }  ///< the program that called train_main
  std::filesystem::path start() const { return path_ / "start.json"; }  ///< the job of another launcher that began it
  std::filesystem::path samples() const { return path_ / "samples.json"; }  ///< what the model was trained on
  std::filesystem::path network() const { return path_ / "network.pt"; }    ///< TorchScript, as it was given
  std::filesystem::path script() const { return path_ / "model.pt"; }       ///< TorchScript, as it was trained

  std::filesystem::path notes() const { return path_ / "notes.jsonl"; }          ///< what people wrote about it
  std::filesystem::path page() const { return path_ / "page.json"; }             ///< where the page of a run is served
  std::filesystem::path page_certificate() const { return path_ / "page.pem"; }  ///< of that page, with its key
  std::filesystem::path stacks() const { return path_ / "stacks"; }              ///< see allow_stack_dumps

  /// Returns whether some process holds it: the launcher of a run that goes on.
  bool held() const;

  /// Returns `logs/worker-1.log` for "worker 1".
  std::filesystem::path log(std::string_view role) const;

  /// Returns the files in the folder that belong to a run; empty = there is no run.
  std::vector<std::filesystem::path> run_files() const;

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  void hold(std::string_view or_else = "choose another folder");

  std::filesystem::path path_;
  std::shared_ptr<const LockFile> lock_;  // null: not held
};

}  // namespace trireme::observe
