#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace trireme::dash {

/// One run, as a row of a table.
///
/// An object with `name`, `state` ("running", "finished", "stopped", "failed", "interrupted"), `started` (seconds since
/// 1970), `step`, `steps`, `seconds`, `flags` (of config.toml), `train` and `test` (the last rows of metrics),
/// `metrics` (of the result), `notes`, `failure`. Never throws for a folder that is damaged: what cannot be read is
/// left out.
nlohmann::json summarize_run(const std::filesystem::path& run);

/// Returns the flags that config.toml holds, as they are written there: {"lr": "0.001"}.
std::map<std::string, std::string> read_flags(const std::filesystem::path& config);

/// Returns whether a folder looks like that of a run.
bool is_run(const std::filesystem::path& folder);

/// All runs in a folder. Remembers what it has read of runs whose files have not changed. Not thread-safe.
class RunList {
 public:
  /// `root` is the folder of one run, or one that holds many.
  explicit RunList(std::filesystem::path root);

  /// Whether `root` is itself a run.
  bool single() const { return single_; }

  /// Returns the summaries of all, the newest first.
  nlohmann::json summaries();

  /// Returns the folder of the run of that name. Throws InvalidArgument if there is none: a name is never a path.
  std::filesystem::path folder(const std::string& name) const;

  std::string name() const { return root_.filename().string(); }  ///< of the folder

 private:
  struct Known {
    std::string stamp;
    nlohmann::json summary;
  };

  std::filesystem::path root_;
  bool single_ = false;
  std::map<std::string, Known> known_;
};

}  // namespace trireme::dash
