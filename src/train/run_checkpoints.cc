#include "train/run_checkpoints.h"

#include "base/error.h"
#include "observe/metrics_file.h"
#include "optim/update_config.h"
#include "tensor/torch_checkpoint.h"

namespace trireme {

RunCheckpoints::RunCheckpoints(JobSession& job, const Model& model, const TrainOptions& options,
                               const cluster::Plan& plan, std::uint64_t samples)
    : job_(job),
      model_(model),
      options_(options),
      plan_(plan),
      samples_(samples),
      every_(options.checkpoint.every.value_or(plan.steps_per_epoch)) {
  if (job_.folder() && every_ > 0) files_.emplace(job_.folder()->checkpoints(), options_.checkpoint);
}

void RunCheckpoints::save_if_due(Strategy& strategy, Step before, Step now) {
  if (plan_.leased || every_ == 0) return;
  const Step due = now - now % every_;
  if (due > before && due < plan_.steps) save(strategy, due);
}

void RunCheckpoints::save(Strategy& strategy, Step step) {
  if (!files_) return;
  const auto began = Deadline::Clock::now();
  WriterPlace place = chief_alone();
  const CheckpointRequest request{.step = step,
                                  .saved = saved_,
                                  .attempt = place.attempt,
                                  .bytes_per_second = options_.checkpoint.bytes_per_second};
  const auto state = files_->may_begin(step) ? strategy.state(request) : std::nullopt;
  if (!state) return;
  // A worker that was not told where the run's files go has a folder of its own, or none.
  const bool shared = state->same_everywhere && !job_.place().run_folder.empty();
  if (shared) {
    place.rank = job_.rank();
    place.workers = job_.workers();
  }
  if (!shared && !job_.chief()) return;
  files_->write(place, *state, describe_run(), score_, began);
  saved_ = state->at.version;
}

void RunCheckpoints::save_last(Strategy& strategy, Step step) {
  if (!files_) return;
  const auto failure = [this] { return job_.view_failure(); };
  files_->finish(failure);
  save(strategy, step);
  files_->finish(failure);
}

void RunCheckpoints::abandon() {
  if (files_) files_->abandon();
  saved_.reset();
}

std::optional<Position> RunCheckpoints::restore(const std::vector<NamedParameter>& state, bool initial) {
  const auto restored = files_ ? files_->restore(state) : std::nullopt;
  if (plan_.leased) job_.membership().rewind(restored ? restored->at.version * plan_.lanes : 0);
  if (!restored) {
    if (initial && files_ && options_.strategy.uses_servers()) {
      files_->write(chief_alone(), {.at = {.fresh = false}, .tensors = state}, describe_run(), std::nullopt,
                    Deadline::Clock::now());
      files_->finish();
    }
    return std::nullopt;
  }
  const nlohmann::json ours = describe_run();
  for (const char* field : {"samples", "batch", "lanes", "seed"}) {
    if (restored->meta.contains(field) && restored->meta.at(field) != ours.at(field)) {
      fail<InvalidArgument>("the checkpoint was made with {} {}, this run has {}: the two would not fit together",
                            field, restored->meta.at(field).dump(), ours.at(field).dump());
    }
  }
  observe::drop_rows_after(job_.folder()->metrics(), restored->at.version);
  return restored->at;
}

WriterPlace RunCheckpoints::chief_alone() const {
  return {.rank = 0, .workers = 1, .attempt = fmt::format("{}-{}", job_.membership().launch(), job_.view().view)};
}

/// What the result depends on, beside the tensors.
nlohmann::json RunCheckpoints::describe_run() const {
  nlohmann::json run{{"samples", samples_},        {"batch", options_.batch},
                     {"lanes", options_.lanes},    {"seed", options_.seed},
                     {"steps", plan_.steps},       {"steps_per_epoch", plan_.steps_per_epoch},
                     {"strategy", plan_.strategy}, {"optimizer", optim::to_string(options_.optimizer.rule)},
                     {"lr", options_.lr},          {"schedule", options_.schedule},
                     {"warmup", options_.warmup}};
  if (nlohmann::json module = describe_module(*model_.module); !module.empty()) run["module"] = std::move(module);
  return run;
}

}  // namespace trireme
