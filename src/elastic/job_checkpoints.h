#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "elastic/state_files.h"
#include "job/job_session.h"

namespace trireme {

/// Throws InvalidArgument unless a run that is described by `ours` visits the samples in the same order as the one that
/// `saved`, a checkpoint's meta, describes.
void check_same_samples(const nlohmann::json& saved, const nlohmann::json& ours);

/// The checkpoints of a job in its run's folder: which workers write which part, and when one was begun. Does nothing
/// where the job has no folder, or wants no checkpoints. Used by the training thread.
class JobCheckpoints {
 public:
  /// One is due after every `every` steps; 0 = never. `job` outlives this object.
  JobCheckpoints(JobSession& job, const CheckpointOptions& options, Step every);

  Step every() const { return every_; }
  bool wanted() const { return files_.has_value(); }

  /// Returns the step of the checkpoint that became due after step `before`, up to step `now`; nullopt if none did.
  std::optional<Step> due(Step before, Step now) const;

  /// The step of the last one that was begun here in this view.
  std::optional<Step> saved() const { return saved_; }

  /// Whether one is still being written here.
  bool busy() const { return files_ && files_->busy(); }

  /// See StateFiles::may_begin.
  bool may_begin(Step step) const { return files_->may_begin(step); }

  /// Tells the parts of one try to save a step from those of another: another one in each view and each launch.
  std::string attempt() const;

  /// Copies this worker's part of `state`, if it has any, and writes it in the background; see StateFiles::write. All
  /// workers write where they hold the same state and know the folder, else the chief does.
  void write(const TrainingState& state, nlohmann::json meta, std::optional<double> score,
             Deadline::Clock::time_point began);

  /// The chief writes `state` alone, and waits until it is on disk.
  void write_alone(const TrainingState& state, nlohmann::json meta);

  /// Waits until what was begun is on disk. Throws PeerLost if somebody's part may never come.
  void finish();

  /// The view is over: gives up a write whose other writers may be gone.
  void abandon();

  /// See StateFiles::open; metrics after the checkpoint are dropped.
  std::optional<StateFiles::Opened> open(const std::function<void(const nlohmann::json& meta)>& check);

  /// See StateFiles::restore; metrics after the checkpoint are dropped.
  std::optional<StateFiles::Restored> restore(const StateFiles::StateFor& state);

 private:
  WriterPlace chief_alone() const { return {.rank = 0, .workers = 1, .attempt = attempt()}; }

  JobSession& job_;
  const Step every_;
  std::optional<StateFiles> files_;  // none: nothing is saved
  std::optional<Step> saved_;
};

}  // namespace trireme
