#include "models/parallel_block.h"

#include <utility>

#include "base/error.h"
#include "models/attention.h"
#include "models/lane_seed.h"

namespace trireme::models {
namespace {

template <typename Holder>
Holder part_of(const torch::nn::Module& whole, const std::string& path) {
  const auto modules = whole.named_modules("", /*include_self=*/false);
  const auto* found = modules.find(path);
  TRIREME_CHECK(found != nullptr, "the block has no '{}'", path);
  const auto part = std::dynamic_pointer_cast<typename Holder::ContainedType>(*found);
  TRIREME_CHECK(part != nullptr, "'{}' of the block is something else", path);
  return Holder(part);
}

}  // namespace

ParallelBlockImpl::ParallelBlockImpl(parallel::TensorGroup& group, const torch::nn::Module& whole, BlockShape shape,
                                     const std::string& label)
    : group_(group), shape_(std::move(shape)), label_(label) {
  group.check_divides(shape_.heads, "heads");
  const auto norm = [&](const std::string& path) {
    const auto here = part_of<torch::nn::LayerNorm>(whole, path);
    return register_at(*this, path, parallel::SequenceLayerNorm(group, here, label + path));
  };
  const auto columns = [&](const std::string& path, std::int64_t pieces) {
    return register_at(*this, path,
                       parallel::ColumnParallelLinear(group, part_of<torch::nn::Linear>(whole, path), pieces));
  };
  const auto rows = [&](const std::string& path) {
    const auto here = part_of<torch::nn::Linear>(whole, path);
    return register_at(*this, path, parallel::RowParallelLinear(group, here, label + path));
  };
  // In the order of the whole block, so that parameters are numbered alike.
  norm_1_ = norm(shape_.norm_1);
  attention_ = columns(shape_.attention, 3);
  projection_ = rows(shape_.projection);
  norm_2_ = norm(shape_.norm_2);
  widen_ = columns(shape_.widen, 1);
  narrow_ = rows(shape_.narrow);
}

torch::Tensor ParallelBlockImpl::forward(const torch::Tensor& part) {
  const std::int64_t length = group_.whole_length(part.size(1), label_ + "length");
  const double rate = is_training() ? shape_.dropout : 0;
  parallel::LaneTensors lanes = gather_to_lanes(group_, norm_1_(part, 1, length), 1, length, label_ + shape_.attention);
  lanes = attention_by_heads(group_, attention_(lanes), shape_.heads, shape_.causal, rate);
  const torch::Tensor attended = part + dropout(group_, projection_->forward_to_parts(lanes, 1), 1, length, rate);
  lanes = gather_to_lanes(group_, norm_2_(attended, 1, length), 1, length, label_ + shape_.widen);
  lanes = parallel::each_lane(widen_(lanes), tanh_gelu);
  return attended + dropout(group_, narrow_->forward_to_parts(lanes, 1), 1, length, rate);
}

bool is_divided(const LayerPlace& place) { return place.tensor != nullptr && !place.tensor->plain(); }

void note_slices(const LayerPlace& place, const std::string& path, const torch::nn::Module& module) {
  if (place.slices == nullptr) return;
  for (const auto& [name, slice] : parallel::parameter_slices(module)) (*place.slices)[path + "." + name] = slice;
}

LayerRun divided_block(torch::nn::Module& root, const LayerPlace& place, const std::string& path,
                       const torch::nn::Module& whole, const BlockShape& shape) {
  auto block = register_at(root, path, ParallelBlock(*place.tensor, whole, shape, path + "."));
  note_slices(place, path, *block);
  return on_x([block, &group = *place.tensor](const torch::Tensor& part) mutable {
    seed_from_layer(group);
    return block->forward(part);
  });
}

void seed_from_layer(parallel::TensorGroup& group) {
  if (const auto seed = LayerSeed::seed()) group.seed(*seed);
}

}  // namespace trireme::models
