#include <algorithm>
#include <utility>

#include "trireme/tensor_parallel.h"

#include "tensor_parallel/dropout_mask.h"

namespace trireme::parallel {
namespace {

/// Numbers at any place of a SplitMix64 stream (Steele et al. 2014): as RandomStream gives them, one after the other.
void draw_elements(float* out, std::int64_t count, std::uint64_t first, std::uint64_t seed, std::uint32_t dropped,
                   float scale) {
  constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ULL;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint64_t z = seed + (first + static_cast<std::uint64_t>(i) + 1) * kGolden;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    z ^= z >> 31;
    out[i] = static_cast<std::uint32_t>(z >> 32) >= dropped ? scale : 0;
  }
}

std::int64_t count_of(at::IntArrayRef sizes) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return count;
}

}  // namespace

torch::Tensor dropout_mask(at::IntArrayRef sizes, std::int64_t dim, std::int64_t first, std::int64_t whole,
                           const torch::TensorOptions& options, double probability, std::uint64_t seed) {
  torch::Tensor mask = torch::empty(sizes, torch::kFloat32);
  const auto place = static_cast<std::size_t>(dim);
  const std::int64_t outer = count_of(sizes.slice(0, place));
  const std::int64_t inner = count_of(sizes.slice(place + 1));
  const std::int64_t run = sizes[place] * inner;  // elements that are neighbours here and in the whole
  const auto dropped = static_cast<std::uint32_t>(std::min(probability * 4294967296.0, 4294967295.0));
  const auto scale = static_cast<float>(1 / (1 - probability));
  for (std::int64_t i = 0; i < outer; ++i) {
    const auto number = static_cast<std::uint64_t>((i * whole + first) * inner);
    draw_elements(mask.data_ptr<float>() + i * run, run, number, seed, dropped, scale);
  }
  return mask.to(options.device(), c10::typeMetaToScalarType(options.dtype()));
}

torch::Tensor dropout_mask(const torch::Tensor& whole, double probability, std::uint64_t seed) {
  if (whole.dim() == 0) return dropout_mask({1}, 0, 0, 1, whole.options(), probability, seed).reshape({});
  return dropout_mask(whole.sizes(), 0, 0, whole.size(0), whole.options(), probability, seed);
}

LaneTensors dropout(TensorGroup& group, LaneTensors lanes, std::int64_t dim, std::int64_t whole, double probability) {
  if (probability <= 0) return lanes;
  if (dim < 0) dim += lanes.front().dim();
  const std::uint64_t seed = group.next_seed();
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const Range block = group.block(whole, group.mine().first + static_cast<Lane>(i));
    lanes[i] =
        lanes[i] * dropout_mask(lanes[i].sizes(), dim, block.begin, whole, lanes[i].options(), probability, seed);
  }
  return lanes;
}

torch::Tensor dropout(TensorGroup& group, const torch::Tensor& part, std::int64_t dim, std::int64_t whole,
                      double probability) {
  if (probability <= 0) return part;
  if (dim < 0) dim += part.dim();
  const std::int64_t first = group.part(whole).begin;
  return part * dropout_mask(part.sizes(), dim, first, whole, part.options(), probability, group.next_seed());
}

}  // namespace trireme::parallel
