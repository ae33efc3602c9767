#include "elastic/buffer_sync.h"

#include <algorithm>

#include "tensor/device/host_memory.h"

namespace trireme {

BufferSync::BufferSync(collective::Communicator& ranks, const torch::nn::Module& module, BufferPolicy policy,
                       collective::ReduceOptions reduce)
    : ranks_(ranks), policy_(policy), reduce_(std::move(reduce)), buffers_(module) {
  if (policy_ != BufferPolicy::kOwn) broadcast_ = buffers_.others;
  if (policy_ == BufferPolicy::kBroadcast)
    broadcast_.insert(broadcast_.end(), buffers_.means.begin(), buffers_.means.end());
  for (const torch::Tensor& tensor : broadcast_) broadcast_bytes_.resize(broadcast_bytes_.size() + tensor.nbytes());
  if (policy_ != BufferPolicy::kAverage || buffers_.means.empty()) return;
  const std::size_t floats = buffers_.mean_floats();
  memory_ = ranks_.allocate(floats * sizeof(float));
  sums_ = {reinterpret_cast<float*>(memory_.get()), floats};
}

std::optional<std::span<float>> BufferSync::sums() {
  const bool any = !buffers_.means.empty() || !buffers_.others.empty();
  return policy_ == BufferPolicy::kAverage && any ? std::optional(sums_) : std::nullopt;
}

void BufferSync::start() {
  if (!sums_.empty()) pending_.emplace_back(ranks_, collective::all_reduce(sums_, reduce_));
  if (broadcast_bytes_.empty()) return;
  std::byte* to = broadcast_bytes_.data();
  for (const torch::Tensor& tensor : broadcast_) {
    to = std::ranges::copy(bytes_of(on_host(tensor)), to).out;
  }
  pending_.emplace_back(
      ranks_, collective::broadcast(collective::Array(DType::kU8, broadcast_bytes_.data(), broadcast_bytes_.size())));
}

void BufferSync::wait() {
  for (collective::PendingOperation& operation : pending_) operation.wait();
  pending_.clear();
}

void BufferSync::apply() {
  torch::NoGradGuard no_grad;
  if (!sums_.empty()) {
    const auto lanes = static_cast<float>(reduce_.lanes.back().end());
    for (float& value : sums_) value /= lanes;
    unpack(sums_, buffers_.means);
  }
  std::byte* from = broadcast_bytes_.data();
  for (const torch::Tensor& tensor : broadcast_) {
    tensor.copy_(torch::from_blob(from, tensor.sizes(), tensor.scalar_type()));
    from += tensor.nbytes();
  }
}

}  // namespace trireme
