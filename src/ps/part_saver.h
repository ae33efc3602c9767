#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>
#include <thread>

#include "base/mutex.h"
#include "ps/tables.h"

namespace trireme::ps {

/// Writes one server's parts of a run's checkpoints, in the background, one at a time. What goes wrong ends up in the
/// log here; then the checkpoint is not completed, and the one before stays valid. Thread-safe.
class PartSaver {
 public:
  /// `folder` is the run's for checkpoints: nothing is written elsewhere, whatever a request says.
  explicit PartSaver(std::filesystem::path folder, SpanRecorder* spans = nullptr);

  /// Gives up what it is writing.
  ~PartSaver();

  /// Begins to write what `held` are the primary of, as it is at `request.version`: chunks that are there now are
  /// copied before it returns, those that lack one update when they get there. The tables of `held` outlive this
  /// object, and take snapshots. A part that is still being written is given up: whoever asks for the next one waits
  /// for it no more. Throws InvalidArgument for a part or an attempt that cannot be, StaleView.
  SaveReply save(const SaveRequest& request, const HeldShards& held);

 private:
  struct Job {
    const Tables* tables = nullptr;
    SaveRequest request;
    Step step = 0;
    std::stop_source stop;  // to give it up
  };

  void work(const std::stop_token& stop);
  void write(const Job& job) const;

  const std::filesystem::path folder_;
  SpanRecorder* const spans_;
  Mutex mutex_;
  StoppableCondition changed_;
  std::optional<Job> job_ TRIREME_GUARDED_BY(mutex_);  // in progress; the thread reads it without the lock
  std::jthread thread_;                                // last: stopped and joined before anything it uses goes away
};

}  // namespace trireme::ps
