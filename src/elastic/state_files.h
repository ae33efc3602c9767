#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trireme/checkpoint.h"
#include "trireme/deadline.h"

#include "checkpoint/checkpoint.h"
#include "checkpoint/writer.h"
#include "elastic/training_state.h"

namespace trireme {

/// Which of the workers that write a checkpoint this is.
struct WriterPlace {
  Rank rank = 0;
  std::uint32_t workers = 1;
  std::string attempt;  ///< the same on all of them, another one in each view and each launch
};

/// The training state on disk, in a run's folder of checkpoints, as one of the workers writes and reads it. Where all
/// workers hold the same state, each writes its share of it. Not thread-safe.
class StateFiles {
 public:
  StateFiles(std::filesystem::path folder, const CheckpointOptions& options);
  StateFiles(const StateFiles&) = delete;
  StateFiles& operator=(const StateFiles&) = delete;

  /// Whether the checkpoint of `step` can be begun; if the one before is still being written, the log says that this
  /// one is left out.
  bool may_begin(Step step) const;

  /// Whether one is still being written.
  bool busy() const { return writer_->busy(); }

  /// Copies this worker's share of `state.tensors` (which may lie on a GPU) and writes it in the background. Training
  /// has waited for this checkpoint since `began`, for the log. If `may_begin`.
  void write(const WriterPlace& place, const TrainingState& state, nlohmann::json meta, std::optional<double> score,
             Deadline::Clock::time_point began);

  /// Waits until what was begun is on disk; on rank 0 until the checkpoint is complete. An error in the log if that
  /// takes too long. Throws PeerLost as soon as `loss` says why somebody's part may never come.
  void finish(const std::function<std::string()>& loss = {});

  /// Gives up a write whose other writers may be gone; one without others goes on. Never blocks for long.
  void abandon();

  /// What a run goes on from.
  struct Restored {
    Position at;
    nlohmann::json meta;
  };

  /// A sound checkpoint, to be read in parts.
  struct Opened {
    Position at;
    checkpoint::Checkpoint saved;
  };

  /// Opens the newest sound checkpoint: all of it is read once to know that. `check` may refuse its meta by throwing.
  /// Returns nullopt if there is none. Throws Corrupt if all are damaged, IoError.
  std::optional<Opened> open(const std::function<void(const nlohmann::json& meta)>& check) const;

  /// Returns the tensors to be read, of which the checkpoint's meta tells more.
  using StateFor = std::function<std::vector<NamedParameter>(const nlohmann::json& meta)>;

  /// Reads the newest sound checkpoint into what `state` returns: of one that is damaged the log says so, and the one
  /// before is tried. Returns nullopt if there is none. Tensors that the checkpoint has in addition are left out.
  /// Throws InvalidArgument if one of the tensors is missing there or has another shape or type, Corrupt if all are
  /// damaged, IoError.
  std::optional<Restored> restore(const StateFor& state) const;

 private:
  void start_writer();
  void log_report(const checkpoint::WriteReport& report) const;

  std::filesystem::path folder_;
  CheckpointOptions options_;
  // About the last write; its report is read by the writer's thread.
  bool alone_ = true;                    // it had no other writers
  std::uint64_t bytes_ = 0;              // of the whole checkpoint
  double waited_ = 0;                    // seconds until the copy was begun
  std::chrono::milliseconds allowed_{};  // for all to be on disk

  std::unique_ptr<checkpoint::Writer> writer_;
};

}  // namespace trireme
