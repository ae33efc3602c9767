#include "train/strategy/server_buffers.h"

#include <algorithm>
#include <cstring>

#include "tensor/device/host_memory.h"

namespace trireme {
namespace {

std::size_t halves_of(const torch::Tensor& tensor) { return (tensor.nbytes() + 1) / 2; }

}  // namespace

ServerBuffers::ServerBuffers(const torch::nn::Module& module, BufferPolicy policy)
    : policy_(policy), buffers_(module), means_(buffers_.mean_floats()) {
  for (const torch::Tensor& other : buffers_.others) others_ += halves_of(other);
}

std::size_t ServerBuffers::floats() const { return 1 + means_ + others_; }

std::optional<std::span<float>> ServerBuffers::sums(std::span<float> table) const {
  return policy_ == BufferPolicy::kAverage ? std::optional(table.subspan(1, means_)) : std::nullopt;
}

void ServerBuffers::add(std::span<float> table, Lane lanes, bool first) const {
  if (policy_ == BufferPolicy::kBroadcast) {
    std::ranges::fill(table, 0.0f);
    if (first) put(table);
    return;
  }
  table[0] = static_cast<float>(lanes);
  std::ranges::fill(table.subspan(1 + means_), 0.0f);
  if (first) put_others(table);
}

void ServerBuffers::put(std::span<float> table) const {
  table[0] = 1;
  pack(buffers_.means, table.subspan(1, means_));
  put_others(table);
}

void ServerBuffers::put_others(std::span<float> table) const {
  float* to = table.data() + 1 + means_;
  for (const torch::Tensor& other : buffers_.others) {
    const torch::Tensor host = on_host(other);
    std::vector<std::uint16_t> halves(halves_of(host));
    std::memcpy(halves.data(), bytes_of(host).data(), host.nbytes());
    to = std::ranges::copy(halves, to).out;
  }
}

void ServerBuffers::take(std::span<const float> table) const {
  torch::NoGradGuard no_grad;
  std::vector<float> means(table.begin() + 1, table.begin() + 1 + static_cast<std::ptrdiff_t>(means_));
  for (float& value : means) value /= table[0];
  unpack(means, buffers_.means);
  const float* from = table.data() + 1 + means_;
  for (const torch::Tensor& other : buffers_.others) {
    std::vector<std::uint16_t> halves;
    for (std::size_t i = 0; i < halves_of(other); ++i) halves.push_back(static_cast<std::uint16_t>(*from++));
    other.copy_(torch::from_blob(halves.data(), other.sizes(), other.scalar_type()));
  }
}

}  // namespace trireme
