#include "train/sharded/mesh_part.h"

#include "trireme/tensor_parallel.h"

#include "base/error.h"
#include "base/log.h"
#include "plan/schedule/own_schedule.h"
#include "train/pipeline/stage_cut.h"
#include "train/strategy/parameter_updates.h"

namespace trireme {
namespace {

/// A task that knows what to do with a part of the output gets one.
Model make_whole(const Model& network, LayerPlace place, const Task& task) {
  bool divided_output = false;
  if (task.outcome_of_part) place.divided_output = &divided_output;
  return whole_model(network.layers, place);
}

}  // namespace

MeshPart::MeshPart(collective::Communicator& world, const FittedMesh& mesh, const Model& network, LaneRange lanes,
                   const TrainOptions& options, SpanRecorder* spans)
    : options_(options), mesh_(mesh.mesh) {
  if (world.rank() >= mesh.used()) {
    model_.module = std::make_shared<torch::nn::Module>("Spare");
    return;
  }
  const plan::Placement placement = mesh.placement();
  at_ = placement.coordinates(world.rank());
  const auto subgroup = [&](plan::Dimension dimension) {
    const std::vector<Rank> ranks = placement.group(dimension, world.rank());
    return world.subgroup(fmt::format("{} {}", plan::name_of(dimension), ranks.front()), ranks);
  };
  if (mesh_.pipe > 1) stages_ = subgroup(plan::Dimension::kPipe);
  if (mesh_.tensor > 1) slices_of_ = subgroup(plan::Dimension::kTensor);
  const Lane tensor_lanes = std::max<Lane>(options_.mesh.tensor_lanes, options_.mesh.tensor);
  if (slices_of_) {
    tensor_ = std::make_unique<parallel::TensorGroup>(*slices_of_, tensor_lanes);
  } else if (tensor_lanes > 1) {
    tensor_ = std::make_unique<parallel::TensorGroup>(tensor_lanes);
  }
  const LayerPlace place{.tensor = tensor_.get()};
  if (stages_) {
    make_stages(network, place, lanes, spans);
  } else {
    model_ = make_whole(network, place, options_.task);
    slices_ = model_.made->slices();
    freeze(*model_.module, options_.groups);
    whole_.emplace(model_, options_, spans);
    parameters_ = trainable_parameters(*model_.module);
  }
  reports_ = at_->tensor == 0 && (!pipeline_ || pipeline_->has_last_stage());
  counts_samples_ = at_->tensor == 0 && at_->pipe == 0;
}

MeshPart::~MeshPart() = default;

/// A schedule of one's own is for the mesh that was asked for, as well.
plan::Schedule MeshPart::schedule_for(std::uint32_t micro_batches) const {
  const auto named = plan::schedule_named(options_.mesh.pipeline, options_.mesh.chunks, mesh_.pipe, micro_batches);
  if (named) return *named;
  log_warn("schedule_replaced", "the schedule that was given is for other numbers: 1f1b takes its place",
           {{"ranks", mesh_.pipe}, {"micro_batches", micro_batches}});
  return plan::make_schedule({.kind = plan::ScheduleKind::k1F1B, .ranks = mesh_.pipe, .micro_batches = micro_batches});
}

void MeshPart::make_stages(const Model& network, const LayerPlace& place, LaneRange lanes, SpanRecorder* spans) {
  const plan::Schedule schedule = schedule_for(lanes.count);
  const bool own = schedule.name == plan::kOwnSchedule;
  // What was cut by hand was cut for the mesh that was asked for: with fewer workers it is cut by cost.
  const bool as_asked = mesh_.pipe == options_.mesh.pipe && own == plan::is_own_schedule(options_.mesh.pipeline);
  const bool by_hand = !options_.mesh.stages.empty() && as_asked;
  const auto stages = by_hand ? parallel::cut_stages(*network.layers, parallel::parse_stage_sizes(options_.mesh.stages))
                              : parallel::cut_stages(*network.layers, schedule.stages());
  // A task that knows what to do with a part of the output gets one.
  bool divided_output = false;
  LayerPlace here = place;
  if (options_.task.outcome_of_part) here.divided_output = &divided_output;
  const auto made = parallel::make_stages(network.layers, stages, schedule, at_->pipe, here);
  slices_ = made->slices();
  model_.module = made->module();
  model_.module->to(options_.device);
  freeze_here(*model_.module, options_.groups);
  pipeline_ = std::make_unique<parallel::PipelineComputer>(
      made, parallel::PipelineOptions{.schedule = schedule, .stages = stages, .recompute = options_.mesh.recompute},
      options_, *stages_, spans);
  parameters_ = pipeline_->parameters();
}

std::vector<LaneStatistics> MeshPart::compute(const StepWork& work, GradientSink& sink) {
  std::vector<LaneStatistics> statistics;
  if (pipeline_) statistics = pipeline_->compute(work, sink);
  if (whole_) statistics = whole_->compute(work, sink);
  if (!reports_) statistics.clear();
  return statistics;
}

void MeshPart::rewind() {
  if (pipeline_) pipeline_->rewind();
  if (whole_) whole_->rewind();
}

void MeshPart::share_tied_values() {
  if (pipeline_) pipeline_->share_tied_values();
}

void MeshPart::place_evaluation(EvaluationPlace& place) {
  place.first = at_ ? at_->data : 0;
  place.stride = mesh_.data;
  if (!at_) place.first = ~std::uint64_t{0} / 2;  // a spare worker has no blocks
  place.module = model_.module.get();
  place.compute = [this](const Task& task, const Batch& batch) { return evaluate(task, batch); };
}

std::optional<Outcome> MeshPart::evaluate(const Task& task, const Batch& batch) {
  if (!pipeline_) {
    Outcome outcome = task.compute(model_, batch);
    return reports_ ? std::optional(std::move(outcome)) : std::nullopt;
  }
  std::vector<Outcome> outcomes = pipeline_->evaluate(std::span(&batch, 1), task);
  if (!reports_ || outcomes.empty()) return std::nullopt;
  return std::move(outcomes.front());
}

void MeshPart::abort(const std::string& reason) {
  if (stages_) stages_->abort(reason);
  if (slices_of_) slices_of_->abort(reason);
}

}  // namespace trireme
