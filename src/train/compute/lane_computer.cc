#include "train/compute/lane_computer.h"

#include <algorithm>
#include <cmath>

#include <torch/utils.h>

#include "base/error.h"
#include "models/lane_seed.h"
#include "tensor/autocast.h"
#include "tensor/loss_factor.h"
#include "train/check_task.h"
#include "train/compute/tensor_batch.h"

namespace trireme {
namespace {

std::vector<torch::Tensor> tensors_of(std::vector<NamedParameter> parameters) {
  std::vector<torch::Tensor> tensors;
  for (NamedParameter& parameter : parameters) tensors.push_back(std::move(parameter.tensor));
  return tensors;
}

void skip_passes(std::uint64_t count, GradientSink& sink) {
  for (std::uint64_t pass = 0; pass < count; ++pass) sink.skip_pass();
}

}  // namespace

LaneComputer::LaneComputer(const Model& model, const TrainOptions& options, SpanRecorder* spans)
    : model_(model),
      options_(options),
      spans_(spans),
      parameters_(tensors_of(trainable_parameters(*model.module))),
      hooks_(parameters_),
      buffers_(*model.module) {}

std::vector<LaneStatistics> LaneComputer::compute(const StepWork& work, GradientSink& sink) {
  std::vector<LaneStatistics> statistics(work.lanes.count);
  const auto buffer_sums = sink.buffer_sums();
  loss_scale_ = sink.loss_scale();
  late_ = sink.on_device();
  buffers_.begin_step();
  const std::vector<SumStep> program = summation_schedule(work.lanes.count);
  std::size_t last_compute = program.size();
  while (program[--last_compute].kind != SumStep::Kind::kCompute) {
  }
  for (Lane rest = work.lanes.count; rest < sink.most_lanes(); ++rest) skip_passes(options_.accumulate, sink);
  for (std::size_t i = 0; i <= last_compute; ++i) {
    const SumStep& move = program[i];
    if (move.kind == SumStep::Kind::kAdd) {
      for (std::size_t p = 0; p < parameters_.size(); ++p) add(move.level, p, sink);
      if (buffer_sums) buffers_.add(move.level, *buffer_sums);
      continue;
    }
    const data::Item& item = work.items[move.lane];
    const bool last = i == last_compute;
    // Once the last lane's gradient of a parameter is there, its sum is complete and leaves.
    const auto complete = [&](std::size_t p) {
      for (std::size_t rest = last_compute + 1; rest < program.size(); ++rest) add(program[rest].level, p, sink);
      sink.add(p);
    };
    const auto on_gradient = [&](std::size_t p, const torch::Tensor& gradient) {
      store(move.level, p, gradient, sink);
      if (last) complete(p);
    };
    if (buffer_sums) buffers_.begin_lane();
    // First what is not computed: the last pass of all workers is then the one whose gradients leave.
    skip_passes(options_.accumulate - parts_of(item), sink);
    if (item.batch.size() == 0) {  // the last batch of an epoch can have fewer samples than lanes
      for (std::size_t p = parameters_.size(); p-- > 0;) on_gradient(p, torch::Tensor());
    } else {
      compute_lane(item, statistics[move.lane], on_gradient);
    }
    if (buffer_sums) buffers_.end_lane(move.level, *buffer_sums);
  }
  if (buffer_sums) {
    for (std::size_t rest = last_compute + 1; rest < program.size(); ++rest) {
      buffers_.add(program[rest].level, *buffer_sums);
    }
    buffers_.end_step();
  }
  return statistics;
}

/// A part has at least one sample.
Lane LaneComputer::parts_of(const data::Item& item) const {
  return static_cast<Lane>(std::min<std::uint64_t>(options_.accumulate, item.batch.size()));
}

void LaneComputer::compute_lane(const data::Item& item, LaneStatistics& statistics,
                                const GradientHooks::OnGradient& on_gradient) {
  // Random numbers belong to (seed, step, lane), not to the worker that happens to compute them; those of a layer to
  // its name, too, so that they are the same in a pipeline.
  torch::manual_seed(lane_seed(options_.seed, item.work.step, item.work.lane));
  const std::uint64_t samples = item.batch.size();
  const Lane parts = parts_of(item);
  std::vector<std::pair<Outcome, SampleRange>> later;
  for (Lane part = 0; part < parts; ++part) {
    const LaneSeed random(lane_seed(options_.seed, item.work.step, item.work.lane, part));
    const SampleRange range = lane_samples(samples, parts, part);
    Outcome outcome = forward(item, range);
    if (!late_) note(outcome, item, range, statistics);
    // Gradients are summed over samples; the mean is taken once, over all lanes.
    const torch::Tensor loss = outcome.loss * loss_factor(range);
    outcome.loss = outcome.loss.detach();
    if (late_) later.emplace_back(std::move(outcome), range);
    const ScopedSpan span(spans_, "backward", item.work.step);
    if (part + 1 < parts) {
      hooks_.accumulate(loss);
    } else {
      hooks_.backward(loss, on_gradient);
    }
  }
  for (auto& [outcome, range] : later) note(outcome, item, range, statistics);
}

double LaneComputer::loss_factor(SampleRange part) const {
  return static_cast<double>(part.count) * static_cast<double>(loss_scale_);
}

Outcome LaneComputer::forward(const data::Item& item, SampleRange part) {
  const ScopedSpan span(spans_, "forward", item.work.step);
  // The samples outlive the step, so the CPU reads them in place.
  const Batch samples_here = to_tensors(item.batch, part, options_.device);
  const AutocastScope precision(options_.precision, options_.device);
  const LossFactor factor(loss_factor(part));
  Outcome outcome = options_.task.compute(model_, samples_here);
  check_loss(outcome, options_.task);
  return outcome;
}

/// Before the gradients of a step have taken effect: a loss that is not finite ends it.
void LaneComputer::note(Outcome& outcome, const data::Item& item, SampleRange part, LaneStatistics& statistics) {
  const double value = settle(outcome, options_.task);
  if (!std::isfinite(value)) {
    fail<InvalidArgument>("the loss is {} at step {}, lane {}: the learning rate ({}) may be too high, or the data bad",
                          value, item.work.step, item.work.lane, options_.lr);
  }
  statistics.loss_sum += value * static_cast<double>(part.count);
  statistics.samples += part.count;
  trireme::add(statistics.metrics, outcome.metrics);
}

torch::Tensor LaneComputer::buffer(std::size_t level, std::size_t parameter, GradientSink& sink) {
  const torch::Tensor& like = parameters_[parameter];
  const auto where = torch::TensorOptions().device(sink.on_device() ? like.device() : torch::Device(torch::kCPU));
  if (level == 0) return torch::from_blob(sink.gradient(parameter).data(), like.sizes(), where);
  while (scratch_.size() < level) scratch_.emplace_back(parameters_.size());
  torch::Tensor& tensor = scratch_[level - 1][parameter];
  if (!tensor.defined() || tensor.device() != where.device()) tensor = torch::empty(like.sizes(), where);
  return tensor;
}

void LaneComputer::store(std::size_t level, std::size_t parameter, const torch::Tensor& gradient, GradientSink& sink) {
  torch::NoGradGuard no_grad;
  torch::Tensor to = buffer(level, parameter, sink);
  if (gradient.defined()) {
    to.copy_(gradient);
    if (loss_scale_ != 1) to.mul_(1 / loss_scale_);  // exact, since scales are usually powers of two
  } else {
    to.zero_();
  }
}

void LaneComputer::add(std::size_t level, std::size_t parameter, GradientSink& sink) {
  torch::NoGradGuard no_grad;
  buffer(level - 1, parameter, sink).add_(buffer(level, parameter, sink));
}

}  // namespace trireme
