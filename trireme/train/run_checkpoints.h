#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trireme/checkpoint/writer.h"
#include "trireme/train/shared_state.h"

namespace trireme {

struct CheckpointOptions {
  std::optional<Step> every;           ///< steps; nothing = once per epoch, 0 = never, not even at the end
  std::uint32_t keep_last = 3;         ///< how many stay
  std::uint32_t keep_best = 1;         ///< and these of the best test accuracy
  std::uint64_t bytes_per_second = 0;  ///< at most, per worker; 0 = as fast as the disk takes it
};

/// Which of the writers of a checkpoint this worker is.
struct WriterPlace {
  Rank rank = 0;
  std::uint32_t workers = 1;
  std::string attempt;  ///< the same on all of them, another one in each view and each launch
};

/// The checkpoints of a run, as one of its workers writes and reads them. Where all workers hold the same state, each
/// writes its share of it. One thread at a time.
class RunCheckpoints {
 public:
  RunCheckpoints(std::filesystem::path folder, const CheckpointOptions& options);

  /// Copies this worker's share of `state` (which may lie on a GPU) and writes it in the background. If the one before
  /// is still being written, this one is left out, unless `wait`: then that one's end is awaited.
  void write(const WriterPlace& place, const Advance& at, const std::vector<NamedParameter>& state, nlohmann::json meta,
             std::optional<double> score, bool wait = false);

  /// Waits until what was begun is on disk; on rank 0 until the checkpoint is complete. A warning in the log if not.
  void finish(Deadline deadline);

  /// Gives up a write whose other writers may be gone; one without others goes on. Never blocks for long.
  void abandon();

  /// What a run goes on from.
  struct Restored {
    Advance at;
    nlohmann::json meta;
  };

  /// Reads the newest complete checkpoint into `state`; nothing if there is none. Tensors that the checkpoint has in
  /// addition are left out. Throws InvalidArgument if one of `state` is missing there or has another shape or type,
  /// Corrupt, IoError.
  std::optional<Restored> restore(const std::vector<NamedParameter>& state) const;

 private:
  void start_writer();

  std::filesystem::path folder_;
  CheckpointOptions options_;
  std::unique_ptr<checkpoint::Writer> writer_;
  bool alone_ = true;  // the last write had no other writers
};

}  // namespace trireme
