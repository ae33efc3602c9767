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
      buffers_(*model.module),
      recorded_(options.device, model.steady && options.task.steady && options.cuda_graphs) {}

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
    // Once the last lane's gradient of a parameter is there, its sum is complete and leaves.
    const auto take = [&, last = i == last_compute](std::size_t p, const torch::Tensor& gradient, const Ready& ready) {
      store(move.level, p, gradient, sink);
      if (!last) return;
      for (std::size_t rest = last_compute + 1; rest < program.size(); ++rest) add(program[rest].level, p, sink);
      ready(p);
    };
    const Ready ready = [&](std::size_t p) { sink.add(p); };
    if (buffer_sums) buffers_.begin_lane();
    // First what is not computed: the last pass of all workers is then the one whose gradients leave.
    skip_passes(options_.accumulate - parts_of(item), sink);
    if (item.batch.size() == 0) {  // the last batch of an epoch can have fewer samples than lanes
      for (std::size_t p = parameters_.size(); p-- > 0;) take(p, torch::Tensor(), ready);
    } else {
      RecordedLanes::Key key{.position = i, .lanes = work.lanes.count, .loss_scale = loss_scale_};
      if (recorded_.on()) key.memory = memory_of(sink);
      compute_lane(item, std::move(key), statistics[move.lane], take, ready);
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

std::vector<const void*> LaneComputer::memory_of(GradientSink& sink) const {
  std::vector<const void*> memory{sink.gradient(0).data()};
  for (const torch::Tensor& parameter : parameters_) memory.push_back(parameter.data_ptr());
  return memory;
}

/// A part has at least one sample.
Lane LaneComputer::parts_of(const data::Item& item) const {
  return static_cast<Lane>(std::min<std::uint64_t>(options_.accumulate, item.batch.size()));
}

void LaneComputer::compute_lane(const data::Item& item, RecordedLanes::Key key, LaneStatistics& statistics,
                                const Take& take, const Ready& ready) {
  // Random numbers belong to (seed, step, lane), not to the worker that happens to compute them; those of a layer to
  // its name, too, so that they are the same in a pipeline.
  torch::manual_seed(lane_seed(options_.seed, item.work.step, item.work.lane));
  const Lane parts = parts_of(item);
  std::vector<SampleRange> ranges;
  for (Lane part = 0; part < parts; ++part) ranges.push_back(lane_samples(item.batch.size(), parts, part));
  if (!late_) {
    for (Lane part = 0; part < parts; ++part) {
      ComputedPart computed = forward(item, part, ranges[part], to_tensors(item.batch, ranges[part], options_.device));
      note(computed, item, statistics);
      backward(computed, item.work.step, part + 1 == parts, take, ready);
    }
    return;
  }
  key.parts = parts;
  for (std::size_t field = 0; field < item.batch.schema().size(); ++field) {
    key.shapes.emplace_back(item.batch.shape(field).begin(), item.batch.shape(field).end());
  }
  const auto compute = [&](const std::vector<Batch>& samples, const Ready& when_ready) {
    std::vector<ComputedPart> all;
    for (Lane part = 0; part < parts; ++part) {
      all.push_back(forward(item, part, ranges[part], samples[part]));
      backward(all.back(), item.work.step, part + 1 == parts, take, when_ready);
    }
    return all;
  };
  for (ComputedPart& computed : recorded_.compute(key, item, ranges, compute, ready)) note(computed, item, statistics);
}

double LaneComputer::loss_factor(SampleRange part) const {
  return static_cast<double>(part.count) * static_cast<double>(loss_scale_);
}

/// The samples outlive the step, so the CPU reads them in place.
ComputedPart LaneComputer::forward(const data::Item& item, Lane part, SampleRange range, const Batch& samples) {
  const ScopedSpan span(spans_, "forward", item.work.step);
  const LaneSeed random(lane_seed(options_.seed, item.work.step, item.work.lane, part));
  const AutocastScope precision(options_.precision, options_.device);
  const LossFactor factor(loss_factor(range));
  Outcome outcome = options_.task.compute(model_, samples);
  check_loss(outcome, options_.task);
  return {.outcome = std::move(outcome), .samples = range};
}

void LaneComputer::backward(ComputedPart& computed, Step step, bool last, const Take& take, const Ready& ready) {
  const ScopedSpan span(spans_, "backward", step);
  // Gradients are summed over samples; the mean is taken once, over all lanes.
  const torch::Tensor loss = computed.outcome.loss * loss_factor(computed.samples);
  computed.outcome.loss = computed.outcome.loss.detach();
  if (!last) return hooks_.accumulate(loss);
  hooks_.backward(loss, [&](std::size_t p, const torch::Tensor& gradient) { take(p, gradient, ready); });
}

/// Before the gradients of a step have taken effect: a loss that is not finite ends it.
void LaneComputer::note(ComputedPart& computed, const data::Item& item, LaneStatistics& statistics) {
  const double value = settle(computed.outcome, options_.task);
  if (!std::isfinite(value)) {
    fail<InvalidArgument>("the loss is {} at step {}, lane {}: the learning rate ({}) may be too high, or the data bad",
                          value, item.work.step, item.work.lane, options_.lr);
  }
  const auto count = computed.samples.count;
  statistics.loss_sum += value * static_cast<double>(count);
  statistics.samples += count;
  trireme::add(statistics.metrics, computed.outcome.metrics);
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
