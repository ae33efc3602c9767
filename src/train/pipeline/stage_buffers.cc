#include "train/pipeline/stage_buffers.h"

#include <unordered_set>

#include "base/error.h"

namespace trireme::parallel {
namespace {

/// Gives `buffer` a value behind autograd's back: graphs of other lanes have saved it (batch norm does, though in
/// training it does not look at it), and would take a change that it knows of for a mistake.
void set_value(const torch::Tensor& buffer, const torch::Tensor& value) { buffer.variable_data().copy_(value); }

}  // namespace

StageBuffers::StageBuffers(const MadeLayers& layers, const std::vector<LayerRange>& stages) {
  std::unordered_set<const at::TensorImpl*> seen;
  for (const auto& item : layers.module()->named_buffers()) {
    const torch::Tensor& tensor = item.value();
    if (!tensor.defined() || !seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
    const std::size_t layer = layers.buffer_layers().at(item.key());
    Buffer buffer{.tensor = tensor, .mean = tensor.scalar_type() == torch::kFloat32};
    while (layer >= stages[buffer.stage].end) ++buffer.stage;
    buffers_.push_back(std::move(buffer));
  }
}

void StageBuffers::begin_step(std::optional<std::span<float>> sums, Lane lanes) {
  const torch::NoGradGuard no_grad;
  summed_ = sums.has_value();
  const auto tree = std::make_shared<const LaneTree>(lanes);
  std::size_t offset = 0;
  for (Buffer& buffer : buffers_) {
    buffer.begin = buffer.tensor.detach().clone();
    buffer.first_lane = torch::Tensor();
    if (!summed_ || !buffer.mean) continue;
    TRIREME_CHECK(offset + static_cast<std::size_t>(buffer.tensor.numel()) <= sums->size());
    buffer.sum = torch::from_blob(sums->data() + offset, buffer.tensor.sizes());
    buffer.lanes.emplace(tree);
    offset += static_cast<std::size_t>(buffer.tensor.numel());
  }
}

void StageBuffers::begin_lane(std::uint32_t stage) {
  const torch::NoGradGuard no_grad;
  if (!summed_) return;
  for (Buffer& buffer : buffers_) {
    if (buffer.stage == stage) set_value(buffer.tensor, buffer.begin);
  }
}

void StageBuffers::end_lane(std::uint32_t stage, Lane lane) {
  if (!summed_) return;
  for (Buffer& buffer : buffers_) {
    if (buffer.stage == stage) take(buffer, lane, buffer.tensor);
  }
}

void StageBuffers::skip_lane(Lane lane) {
  if (!summed_) return;
  for (Buffer& buffer : buffers_) take(buffer, lane, buffer.begin);
}

void StageBuffers::take(Buffer& buffer, Lane lane, const torch::Tensor& value) {
  const torch::NoGradGuard no_grad;
  torch::Tensor copy = value.detach().to(torch::kCPU, value.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
  if (buffer.mean) {
    buffer.lanes->add(lane, copy.contiguous(), buffer.sum);
  } else if (lane == 0) {
    buffer.first_lane = std::move(copy);
  }
}

void StageBuffers::end_step() {
  const torch::NoGradGuard no_grad;
  for (Buffer& buffer : buffers_) {
    if (buffer.first_lane.defined()) set_value(buffer.tensor, buffer.first_lane);
  }
}

void StageBuffers::rewind() {
  const torch::NoGradGuard no_grad;
  for (Buffer& buffer : buffers_) {
    if (buffer.begin.defined()) set_value(buffer.tensor, buffer.begin);
  }
}

std::vector<torch::Tensor> StageBuffers::copies(std::uint32_t stage) const {
  std::vector<torch::Tensor> values;
  for (const Buffer& buffer : buffers_) {
    if (buffer.stage == stage) values.push_back(buffer.tensor.detach().clone());
  }
  return values;
}

void StageBuffers::put_back(std::uint32_t stage, const std::vector<torch::Tensor>& values) {
  const torch::NoGradGuard no_grad;
  std::size_t next = 0;
  for (Buffer& buffer : buffers_) {
    if (buffer.stage == stage) set_value(buffer.tensor, values[next++]);
  }
}

}  // namespace trireme::parallel
