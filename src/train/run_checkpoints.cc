#include "train/run_checkpoints.h"

#include <map>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/format.h"
#include "optim/loss_scale.h"
#include "optim/update_config.h"
#include "tensor/files/load_model.h"
#include "tensor/files/torch_checkpoint.h"

namespace trireme {

RunCheckpoints::RunCheckpoints(JobSession& job, const Model& model, const TrainOptions& options,
                               const cluster::Plan& plan, std::uint64_t samples, SpanRecorder* spans)
    : job_(job),
      model_(model),
      options_(options),
      plan_(plan),
      samples_(samples),
      spans_(spans),
      files_(job, options.checkpoint, options.checkpoint.every.value_or(plan.steps_per_epoch)) {}

void RunCheckpoints::save_if_due(Strategy& strategy, Step before, Step now) {
  const auto due = plan_.leased ? std::nullopt : files_.due(before, now);
  if (due && *due < plan_.steps) save(strategy, *due);
}

void RunCheckpoints::save(Strategy& strategy, Step step) {
  if (!files_.wanted()) return;
  const ScopedSpan span(spans_, "checkpoint", step);
  const auto began = Deadline::Clock::now();
  const CheckpointRequest request{.step = step,
                                  .saved = files_.saved(),
                                  .attempt = files_.attempt(),
                                  .bytes_per_second = options_.checkpoint.bytes_per_second};
  const auto state = files_.may_begin(step) ? strategy.state(request) : std::nullopt;
  if (state) files_.write(*state, describe_run(), score_, began);
}

void RunCheckpoints::save_first(Strategy& strategy) {
  save(strategy, 0);
  files_.finish();
}

void RunCheckpoints::save_as_asked(Strategy& strategy, Step step) {
  if (!files_.wanted()) {
    log_warn("checkpoint_skipped", "skipped a checkpoint that was asked for",
             {{"step", step}, {"reason", "this run makes none (--checkpoint-every 0), or has no folder"}});
    return;
  }
  files_.finish();
  save(strategy, step);
}

void RunCheckpoints::save_last(Strategy& strategy, Step step) {
  files_.finish();
  save(strategy, step);
  files_.finish();
}

std::optional<Position> RunCheckpoints::restore(const std::vector<NamedParameter>& state, bool initial) {
  const auto restored = files_.restore([&](const nlohmann::json& meta) {
    check_same_samples(meta, describe_run());
    std::vector<NamedParameter> saved = state;
    if (!meta.value("loss_scale", false)) {  // it was fixed then, and now begins to adapt
      std::erase_if(saved, [](const NamedParameter& piece) { return piece.name == optim::kLossScaleTensor; });
    }
    return saved;
  });
  if (plan_.leased) job_.membership().rewind(restored ? restored->at.version * plan_.lanes : 0);
  if (restored) return restored->at;
  const bool loads = initial && !options_.init.empty();
  if (loads) load_init(state);
  if (initial && files_.wanted() && options_.strategy.uses_servers()) {
    files_.write_alone({.at = {.fresh = false}, .tensors = state}, describe_run());
  }
  return loads ? std::optional(Position{.fresh = false}) : std::nullopt;
}

std::optional<OpenedState> RunCheckpoints::open(bool initial) {
  auto opened = files_.open([&](const nlohmann::json& meta) { check_same_samples(meta, describe_run()); });
  if (opened) return OpenedState{.at = opened->at, .saved = std::move(opened->saved)};
  if (initial && !options_.init.empty()) {
    std::vector<NamedParameter> state;
    for (const ModelTensor& tensor : model_tensors(*model_.module)) {
      const std::string& name = tensor.names.front();
      state.push_back(
          {tensor.buffer ? checkpoint::buffer_tensor(name) : checkpoint::model_tensor(name), tensor.tensor});
    }
    load_init(state);
  }
  return std::nullopt;
}

/// Fills what the strategy holds of the model's tensors: `state` may be copies of them.
void RunCheckpoints::load_init(const std::vector<NamedParameter>& state) const {
  std::map<std::string, torch::Tensor> held;
  for (const NamedParameter& piece : state) held.emplace(piece.name, piece.tensor);
  std::vector<ModelTensor> tensors = model_tensors(*model_.module);
  for (ModelTensor& tensor : tensors) {
    const std::string& name = tensor.names.front();
    tensor.tensor = held.at(tensor.buffer ? checkpoint::buffer_tensor(name) : checkpoint::model_tensor(name));
  }
  try {
    const LoadReport report = load_tensors(tensors, options_.init, {.prefix = options_.init_prefix});
    log_info("model_loaded", "starts from a model that was given",
             {{"from", options_.init.string()}, {"loaded", report.loaded}, {"of", report.of}});
  } catch (const Error& problem) {  // damaged, too: a worker that is restarted would do no better
    fail<InvalidArgument>("{}", problem.what());
  }
}

/// What the result depends on, beside the tensors.
nlohmann::json RunCheckpoints::describe_run() const {
  nlohmann::json run{{"samples", samples_},        {"batch", options_.batch},
                     {"lanes", options_.lanes},    {"seed", options_.seed},
                     {"steps", plan_.steps},       {"steps_per_epoch", plan_.steps_per_epoch},
                     {"strategy", plan_.strategy}, {"optimizer", optim::to_string(options_.optimizer.rule)},
                     {"lr", options_.lr},          {"schedule", options_.schedule},
                     {"warmup", options_.warmup}};
  if (options_.loss_scale.dynamic) run["loss_scale"] = true;
  if (!options_.init.empty()) run["init"] = options_.init.string();
  if (nlohmann::json module = describe_module(*model_.module); !module.empty()) run["module"] = std::move(module);
  return run;
}

}  // namespace trireme
