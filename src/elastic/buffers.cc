#include "elastic/buffers.h"

#include <unordered_set>

#include "base/error.h"

namespace trireme {
namespace {

torch::Tensor view_of(std::span<float> flat) {
  return torch::from_blob(flat.data(), {static_cast<std::int64_t>(flat.size())});
}

std::vector<torch::Tensor> clones_of(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> clones;
  for (const torch::Tensor& tensor : tensors) clones.push_back(tensor.detach().clone());
  return clones;
}

}  // namespace

ModelBuffers::ModelBuffers(const torch::nn::Module& module) {
  std::unordered_set<const at::TensorImpl*> seen;
  for (const torch::Tensor& buffer : module.buffers()) {
    if (!buffer.defined() || !seen.insert(buffer.unsafeGetTensorImpl()).second) continue;
    (buffer.scalar_type() == torch::kFloat32 ? means : others).push_back(buffer);
  }
}

std::size_t ModelBuffers::mean_floats() const {
  std::size_t total = 0;
  for (const torch::Tensor& tensor : means) total += static_cast<std::size_t>(tensor.numel());
  return total;
}

void pack(const std::vector<torch::Tensor>& tensors, std::span<float> flat) {
  torch::NoGradGuard no_grad;
  for (const torch::Tensor& tensor : tensors) {
    const auto count = static_cast<std::size_t>(tensor.numel());
    TRIREME_CHECK(count <= flat.size());
    view_of(flat.first(count)).view(tensor.sizes()).copy_(tensor);
    flat = flat.subspan(count);
  }
}

void unpack(std::span<const float> flat, const std::vector<torch::Tensor>& tensors) {
  torch::NoGradGuard no_grad;
  for (const torch::Tensor& tensor : tensors) {
    const auto count = static_cast<std::size_t>(tensor.numel());
    TRIREME_CHECK(count <= flat.size());
    // from_blob takes no pointer to const; it is only read.
    tensor.copy_(view_of({const_cast<float*>(flat.data()), count}).view(tensor.sizes()));
    flat = flat.subspan(count);
  }
}

void LaneBuffers::begin_step() {
  begin_ = clones_of(buffers_.means);
  for (torch::Tensor& other : clones_of(buffers_.others)) begin_.push_back(std::move(other));
  first_lane_.clear();
}

void LaneBuffers::begin_lane() {
  torch::NoGradGuard no_grad;
  std::size_t i = 0;
  for (const torch::Tensor& mean : buffers_.means) mean.copy_(begin_[i++]);
  for (const torch::Tensor& other : buffers_.others) other.copy_(begin_[i++]);
}

void LaneBuffers::rewind() {
  if (!begin_.empty()) begin_lane();
}

void LaneBuffers::end_lane(std::size_t level, std::span<float> level0) {
  if (!level0.empty()) pack(buffers_.means, {sums(level, level0).data_ptr<float>(), level0.size()});
  if (first_lane_.empty()) first_lane_ = clones_of(buffers_.others);
}

void LaneBuffers::add(std::size_t level, std::span<float> level0) { sums(level - 1, level0).add_(sums(level, level0)); }

void LaneBuffers::end_step() {
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < first_lane_.size(); ++i) buffers_.others[i].copy_(first_lane_[i]);
}

torch::Tensor LaneBuffers::sums(std::size_t level, std::span<float> level0) {
  if (level == 0) return view_of(level0);
  while (scratch_.size() < level) scratch_.push_back(torch::empty({static_cast<std::int64_t>(level0.size())}));
  return scratch_[level - 1];
}

}  // namespace trireme
