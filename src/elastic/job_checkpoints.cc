#include "elastic/job_checkpoints.h"

#include "base/error.h"
#include "observe/metrics_file.h"

namespace trireme {

void check_same_samples(const nlohmann::json& saved, const nlohmann::json& ours) {
  for (const char* field : {"samples", "batch", "lanes", "seed"}) {
    if (saved.contains(field) && saved.at(field) != ours.at(field)) {
      fail<InvalidArgument>("the checkpoint was made with {} {}, this run has {}: the two would not fit together",
                            field, saved.at(field).dump(), ours.at(field).dump());
    }
  }
}

JobCheckpoints::JobCheckpoints(JobSession& job, const CheckpointOptions& options, Step every)
    : job_(job), every_(every) {
  if (job_.folder() && every_ > 0) files_.emplace(job_.folder()->checkpoints(), options);
}

std::optional<Step> JobCheckpoints::due(Step before, Step now) const {
  if (!wanted()) return std::nullopt;
  const Step newest = now - now % every_;
  return newest > before ? std::optional(newest) : std::nullopt;
}

std::string JobCheckpoints::attempt() const {
  return fmt::format("{}-{}", job_.membership().launch(), job_.view().view);
}

void JobCheckpoints::write(const TrainingState& state, nlohmann::json meta, std::optional<double> score,
                           Deadline::Clock::time_point began) {
  WriterPlace place = chief_alone();
  // A worker that was not told where the run's files go has a folder of its own, or none.
  const bool shared = state.same_everywhere && !job_.place().run_folder.empty();
  if (shared) {
    place.rank = job_.rank();
    place.workers = job_.workers();
  }
  if (!shared && state.sharded && job_.workers() > 1) {
    fail<InvalidArgument>(
        "workers that each hold a part of the state all write to the run's folder, and this one was not told where it "
        "is: start the job with trireme run or train, or give all of them the same TRIREME_RUN_DIR");
  }
  if (!shared && !job_.chief()) return;
  files_->write(place, state, std::move(meta), score, began);
  saved_ = state.at.version;
}

void JobCheckpoints::write_alone(const TrainingState& state, nlohmann::json meta) {
  files_->write(chief_alone(), state, std::move(meta), std::nullopt, Deadline::Clock::now());
  files_->finish();
}

void JobCheckpoints::finish() {
  if (files_) files_->finish([this] { return job_.view_failure(); });
}

void JobCheckpoints::abandon() {
  if (files_) files_->abandon();
  saved_.reset();
}

std::optional<StateFiles::Opened> JobCheckpoints::open(const std::function<void(const nlohmann::json& meta)>& check) {
  auto opened = files_ ? files_->open(check) : std::nullopt;
  if (files_) observe::drop_rows_after(job_.folder()->metrics(), opened ? opened->at.version : 0);
  return opened;
}

std::optional<StateFiles::Restored> JobCheckpoints::restore(const StateFiles::StateFor& state) {
  const auto restored = files_ ? files_->restore(state) : std::nullopt;
  if (files_) observe::drop_rows_after(job_.folder()->metrics(), restored ? restored->at.version : 0);
  return restored;
}

}  // namespace trireme
