#include "train/pipeline/pipeline_computer.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/error.h"
#include "models/lane_seed.h"
#include "plan/schedule/schedule_check.h"
#include "tensor/autocast.h"
#include "tensor/device/host_memory.h"
#include "tensor/loss_factor.h"
#include "train/check_task.h"
#include "train/compute/tensor_batch.h"
#include "train/pipeline/agreement.h"
#include "train/pipeline/tree_sum.h"

namespace trireme::parallel {
namespace {

using pipeline::Message;

bool is_split(const plan::Schedule& schedule) {
  for (const auto& actions : schedule.ranks) {
    for (const plan::Action& action : actions) {
      if (action.kind == plan::ActionKind::kBackwardInput) return true;
    }
  }
  return false;
}

bool has_messages(const plan::Schedule& schedule) {
  for (const auto& actions : schedule.ranks) {
    if (std::ranges::any_of(actions, [](const plan::Action& a) { return plan::is_message(a.kind); })) return true;
  }
  return false;
}

PipelineOptions checked(PipelineOptions options, const MadeLayers& layers) {
  plan::check_schedule(options.schedule);
  if (!has_messages(options.schedule)) options.schedule = plan::with_messages(options.schedule);
  const std::vector<LayerRange>& stages = options.stages;
  bool whole = options.schedule.stages() == stages.size() && stages.back().end == layers.list().size();
  for (std::size_t i = 0; i < stages.size(); ++i) {
    whole = whole && stages[i].size() > 0 && stages[i].begin == (i == 0 ? 0 : stages[i - 1].end);
  }
  if (!whole) {
    fail<InvalidArgument>("a schedule of {} stages does not fit a network of {} layers that is cut into {}",
                          options.schedule.stages(), layers.list().size(), stages.size());
  }
  return options;
}

/// The shapes of a lane's samples, which all ranks know: what the shapes of activations depend on.
std::string samples_text(const data::Batch& batch) {
  std::vector<std::vector<std::int64_t>> shapes;
  for (std::size_t field = 0; field < batch.schema().size(); ++field) {
    shapes.emplace_back(batch.shape(field).begin(), batch.shape(field).end());
  }
  return shapes_text(shapes);
}

}  // namespace

/// One step.
class PipelineComputer::Step final : public pipeline::StageActions {
 public:
  Step(PipelineComputer& pipeline, const StepWork& work, GradientSink& sink)
      : pipeline_(pipeline),
        work_(work),
        sink_(sink),
        schedule_(pipeline.pipeline_.schedule),
        split_(is_split(schedule_)),
        messages_(pipeline.layouts_, keys(work), pipeline.options_.device),
        statistics_(work.lanes.count) {
    const auto tree = std::make_shared<const LaneTree>(work.lanes.count);
    for (std::size_t i = 0; i < pipeline.parameters_.size(); ++i) {
      const torch::Tensor& parameter = pipeline.parameters_[i].tensor;
      index_[parameter.unsafeGetTensorImpl()] = i;
      sums_.emplace_back(tree);
    }
  }

  std::vector<LaneStatistics> run() {
    pipeline_.buffers_.begin_step(sink_.buffer_sums(), work_.lanes.count);
    const auto is_absent = [this](std::uint32_t lane) { return absent(lane); };
    TiedGradients& ties = *pipeline_.ties_;
    ties.begin([this](std::size_t tie, Lane lane, const torch::Tensor& gradient) { tied(tie, lane, gradient); },
               is_absent);
    skip_absent();
    pipeline::Links links(pipeline_.ranks_, schedule_);
    pipeline_.counts_ = run_schedule(schedule_, pipeline_.ranks_.rank(), links, *this);
    ties.finish();
    pipeline_.buffers_.end_step();
    return std::move(statistics_);
  }

  bool absent(std::uint32_t lane) override { return work_.items[lane].batch.size() == 0; }

  void forward(std::uint32_t stage, std::uint32_t lane) override {
    const ScopedSpan span(pipeline_.spans_, "forward", work_.step);
    const data::Item& item = work_.items[lane];
    const bool first = stage == 0;
    const bool last = stage + 1 == schedule_.stages();
    Batch samples;
    if (first || last) samples = to_tensors(item.batch, {0, item.batch.size()}, pipeline_.options_.device);
    Activations inputs = first ? pipeline_.layers_->list().activations_of(pipeline_.options_.task.inputs(samples))
                               : messages_.take({true, stage, lane});
    const std::uint64_t seed = lane_seed(pipeline_.options_.seed, item.work.step, item.work.lane);
    const AutocastScope precision(pipeline_.options_.precision, pipeline_.options_.device);
    pipeline_.buffers_.begin_lane(stage);
    HeldMicroBatch held = pipeline_.stages_[stage]->forward(std::move(inputs), seed, split_);
    pipeline_.buffers_.end_lane(stage, lane);
    if (last) {
      held.loss = finish_lane(held.outputs.at("x"), samples, lane);
      held.outputs.clear();
    } else {
      messages_.put({true, stage + 1, lane}, held.outputs);
    }
    held_[{stage, lane}] = std::move(held);
  }

  void backward(std::uint32_t stage, std::uint32_t lane) override {
    backward_input(stage, lane);
    deliver(stage, lane);
  }

  void backward_input(std::uint32_t stage, std::uint32_t lane) override {
    const ScopedSpan span(pipeline_.spans_, "backward", work_.step);
    const bool last = stage + 1 == schedule_.stages();
    const Activations gradients = last ? Activations() : messages_.take({false, stage, lane});
    // Layers that are computed again see the buffers that they saw, and leave no trace in them.
    std::vector<torch::Tensor> buffers;
    if (pipeline_.pipeline_.recompute) {
      buffers = pipeline_.buffers_.copies(stage);
      pipeline_.buffers_.begin_lane(stage);
    }
    Activations of_inputs = pipeline_.stages_[stage]->backward(held_.at({stage, lane}), gradients);
    if (pipeline_.pipeline_.recompute) pipeline_.buffers_.put_back(stage, buffers);
    if (stage > 0) messages_.put({false, stage - 1, lane}, std::move(of_inputs));
  }

  void backward_weight(std::uint32_t stage, std::uint32_t lane) override {
    const ScopedSpan span(pipeline_.spans_, "weights", work_.step);
    StageRun::backward_weight(held_.at({stage, lane}));
    deliver(stage, lane);
  }

  pipeline::Outgoing outgoing(const Message& message) override { return messages_.outgoing(message); }
  std::optional<std::vector<collective::Array>> memory_for(const Message& message) override {
    return messages_.memory_for(message);
  }
  void learn(const Message& message, const pipeline::Layout& layout) override { messages_.learn(message, layout); }

 private:
  static std::vector<std::string> keys(const StepWork& work) {
    std::vector<std::string> keys;
    for (const data::Item& item : work.items) keys.push_back("train " + samples_text(item.batch));
    return keys;
  }

  /// The loss of a lane, summed over its samples; its statistics are noted.
  torch::Tensor finish_lane(const torch::Tensor& output, const Batch& samples, Lane lane) {
    const TrainOptions& options = pipeline_.options_;
    const std::uint64_t count = work_.items[lane].batch.size();
    const LossFactor factor(static_cast<double>(count));
    Outcome outcome = outcome_of(options.task, output, pipeline_.layers_->divided_output(), samples);
    const double value = settle(outcome, options.task);
    if (!std::isfinite(value)) {
      fail<InvalidArgument>(
          "the loss is {} at step {}, lane {}: the learning rate ({}) may be too high, or the data bad", value,
          work_.step, work_.items[lane].work.lane, options.lr);
    }
    statistics_[lane] = {.loss_sum = value * static_cast<double>(count), .metrics = outcome.metrics, .samples = count};
    return outcome.loss * static_cast<double>(count);
  }

  /// Lanes without samples add zeros, as they do where one process computes all.
  void skip_absent() {
    for (Lane lane = 0; lane < work_.lanes.count; ++lane) {
      if (!absent(lane)) continue;
      pipeline_.buffers_.skip_lane(lane);
      for (std::size_t i = 0; i < sums_.size(); ++i) add(i, lane, {});
    }
  }

  /// The gradients of a lane's parameters in this stage are complete.
  void deliver(std::uint32_t stage, Lane lane) {
    HeldMicroBatch held = std::move(held_.extract({stage, lane}).mapped());
    const std::vector<torch::Tensor>& parameters = pipeline_.stages_[stage]->parameters();
    std::map<std::size_t, torch::Tensor> of_ties;
    for (std::size_t i = parameters.size(); i-- > 0;) {
      const at::TensorImpl* parameter = parameters[i].unsafeGetTensorImpl();
      torch::Tensor gradient;
      if (const auto found = held.gradients.find(parameter); found != held.gradients.end()) gradient = found->second;
      held.gradients.erase(parameter);
      if (const auto tie = tie_of(parameter)) {
        of_ties[*tie] = std::move(gradient);
      } else {
        add(index_.at(parameter), lane, std::move(gradient));
      }
    }
    for (auto& [tie, gradient] : of_ties) pipeline_.ties_->add(tie, stage, lane, std::move(gradient));
    pipeline_.ties_->advance();
  }

  std::optional<std::size_t> tie_of(const at::TensorImpl* parameter) const {
    const auto& tied = pipeline_.tied_;
    const auto found =
        std::ranges::find(tied, parameter, [](const torch::Tensor& t) { return t.unsafeGetTensorImpl(); });
    if (found == tied.end()) return std::nullopt;
    return static_cast<std::size_t>(found - tied.begin());
  }

  void tied(std::size_t tie, Lane lane, const torch::Tensor& gradient) {
    add(index_.at(pipeline_.tied_[tie].unsafeGetTensorImpl()), lane, gradient);
  }

  void add(std::size_t parameter, Lane lane, torch::Tensor gradient) {
    const torch::Tensor& like = pipeline_.parameters_[parameter].tensor;
    if (gradient.defined()) gradient = on_host(gradient.to(torch::kFloat32));
    const torch::Tensor sum = torch::from_blob(sink_.gradient(parameter).data(), like.sizes());
    if (sums_[parameter].add(lane, std::move(gradient), sum)) sink_.add(parameter);
  }

  PipelineComputer& pipeline_;
  const StepWork& work_;
  GradientSink& sink_;
  const plan::Schedule& schedule_;
  const bool split_;
  ActivationMessages messages_;
  std::vector<LaneStatistics> statistics_;
  std::unordered_map<const at::TensorImpl*, std::size_t> index_;   // of owned parameters
  std::vector<TreeSum> sums_;                                      // by parameter
  std::map<std::pair<std::uint32_t, Lane>, HeldMicroBatch> held_;  // stage, lane
};

/// Batches through the stages, without gradients.
class PipelineComputer::Forward final : public pipeline::StageActions {
 public:
  Forward(PipelineComputer& pipeline, std::span<const Batch> batches)
      : pipeline_(pipeline), batches_(batches), messages_(pipeline.layouts_, keys(batches), pipeline.options_.device) {}

  void forward(std::uint32_t stage, std::uint32_t i) override {
    const LayerList& list = pipeline_.layers_->list();
    Activations activations = stage == 0 ? list.activations_of(pipeline_.options_.task.inputs(batches_[i]))
                                         : messages_.take({true, stage, i});
    const AutocastScope precision(pipeline_.options_.precision, pipeline_.options_.device);
    activations = pipeline_.layers_->forward(pipeline_.pipeline_.stages[stage], std::move(activations));
    if (stage + 1 == pipeline_.pipeline_.stages.size()) {
      outputs.push_back(activations.at("x"));
    } else {
      messages_.put({true, stage + 1, i}, std::move(activations));
    }
  }
  void backward(std::uint32_t, std::uint32_t) override {}
  void backward_input(std::uint32_t, std::uint32_t) override {}
  void backward_weight(std::uint32_t, std::uint32_t) override {}
  pipeline::Outgoing outgoing(const Message& message) override { return messages_.outgoing(message); }
  std::optional<std::vector<collective::Array>> memory_for(const Message& message) override {
    return messages_.memory_for(message);
  }
  void learn(const Message& message, const pipeline::Layout& layout) override { messages_.learn(message, layout); }

  std::vector<torch::Tensor> outputs;

 private:
  static std::vector<std::string> keys(std::span<const Batch> batches) {
    std::vector<std::string> keys;
    for (const Batch& batch : batches) {
      std::vector<std::vector<std::int64_t>> shapes;
      for (std::size_t i = 0; i < batch.schema().size(); ++i) {
        shapes.push_back(batch[batch.schema()[i].name].sizes().vec());
      }
      keys.push_back("forward " + shapes_text(shapes));
    }
    return keys;
  }

  PipelineComputer& pipeline_;
  std::span<const Batch> batches_;
  ActivationMessages messages_;
};

PipelineComputer::PipelineComputer(std::shared_ptr<const MadeLayers> layers, PipelineOptions pipeline,
                                   const TrainOptions& options, collective::Communicator& ranks, SpanRecorder* spans)
    : layers_(std::move(layers)),
      pipeline_(checked(std::move(pipeline), *layers_)),
      options_(options),
      ranks_(ranks),
      spans_(spans),
      stages_(pipeline_.stages.size()),
      buffers_(*layers_, pipeline_.stages) {
  if (!options.task.inputs || !options.task.outcome) {
    fail<InvalidArgument>(
        "task '{}' is one function, and in a pipeline no process has the whole model: give it in two halves, what goes "
        "into the model and what is made of its output (make_task in trireme/task.h)",
        options.task.name);
  }
  if (options.accumulate > 1) {
    fail<InvalidArgument>(
        "lanes in {} parts each: in a pipeline each lane is a micro-batch; use {} times as many lanes instead",
        options.accumulate, options.accumulate);
  }
  std::vector<TiedStages> ties = tied_stages(layers_->list(), pipeline_.stages);
  const auto named = layers_->module()->named_parameters();
  for (const TiedStages& tie : ties) {
    const torch::Tensor* parameter = named.find(tie.parameter);
    const bool trained = parameter != nullptr && parameter->requires_grad();
    tied_.push_back(trained ? *parameter : torch::Tensor());
  }
  for (NamedParameter& parameter : trainable_parameters(*layers_->module())) {
    const auto tie = std::ranges::find(ties, parameter.name, &TiedStages::parameter);
    const bool elsewhere = tie != ties.end() && pipeline_.schedule.rank_of_stage[tie->stages.back()] != ranks.rank();
    if (!elsewhere) parameters_.push_back(std::move(parameter));
  }
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    if (pipeline_.schedule.rank_of_stage[stage] != ranks.rank()) continue;
    stages_[stage].emplace(*layers_, pipeline_.stages[stage], options, pipeline_.recompute);
  }
  check_agreement(ranks, *layers_, pipeline_.schedule, pipeline_.stages, parameters_);
  ties_ = std::make_unique<TiedGradients>(ranks, pipeline_.schedule, std::move(ties), tied_);
}

PipelineComputer::~PipelineComputer() = default;

template <typename Work>
auto PipelineComputer::or_abort(const Work& work_of_rank) {
  try {
    return work_of_rank();
  } catch (const std::exception& problem) {
    const std::string reason = fmt::format("rank {} of the pipeline gave up: {}", ranks_.rank(), problem.what());
    ranks_.abort(reason);
    ties_->abort(reason);
    throw;
  }
}

std::vector<LaneStatistics> PipelineComputer::compute(const StepWork& work, GradientSink& sink) {
  if (work.lanes.count != pipeline_.schedule.micro_batches) {
    fail<InvalidArgument>("a schedule of {} micro-batches for {} lanes", pipeline_.schedule.micro_batches,
                          work.lanes.count);
  }
  return or_abort([&] { return Step(*this, work, sink).run(); });
}

std::vector<torch::Tensor> PipelineComputer::forward(std::span<const Batch> batches) {
  if (batches.empty()) return {};
  const torch::NoGradGuard no_grad;
  const auto count = static_cast<std::uint32_t>(batches.size());
  const auto [schedule, added] = forward_schedules_.try_emplace(count);
  if (added) schedule->second = pipeline::forward_schedule(pipeline_.schedule.rank_of_stage, count);
  return or_abort([&] {
    Forward actions(*this, batches);
    pipeline::Links links(ranks_, schedule->second);
    run_schedule(schedule->second, ranks_.rank(), links, actions);
    return std::move(actions.outputs);
  });
}

bool PipelineComputer::has_last_stage() const { return stages_.back().has_value(); }

std::vector<Outcome> PipelineComputer::evaluate(std::span<const Batch> batches, const Task& task) {
  const torch::NoGradGuard no_grad;
  std::vector<Outcome> outcomes;
  const std::vector<torch::Tensor> outputs = forward(batches);
  const AutocastScope precision(options_.precision, options_.device);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outcomes.push_back(outcome_of(task, outputs[i], layers_->divided_output(), batches[i]));
  }
  return outcomes;
}

}  // namespace trireme::parallel
