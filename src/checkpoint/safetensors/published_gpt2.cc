#include "checkpoint/safetensors/published_gpt2.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace trireme::checkpoint {
namespace {

constexpr std::string_view kPrefix = "transformer.";
constexpr std::array<std::string_view, 4> kConv1d{".attn.c_attn.weight", ".attn.c_proj.weight", ".mlp.c_fc.weight",
                                                  ".mlp.c_proj.weight"};

bool ends_with_one_of(std::string_view name, std::span<const std::string_view> endings) {
  return std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
}

/// The layer that makes queries, keys and values tells: a width becomes three of them, and not the other way round.
bool is_published(const TensorView& tensor) {
  return tensor.name.ends_with(kConv1d.front()) && tensor.shape.size() == 2 && tensor.shape[1] == 3 * tensor.shape[0];
}

bool is_surplus(std::string_view name) {
  constexpr std::array<std::string_view, 2> kMasks{".attn.bias", ".attn.masked_bias"};
  return name == "lm_head.weight" || ends_with_one_of(name, kMasks);
}

}  // namespace

std::vector<PublishedTensor> recognise_gpt2(const std::vector<TensorView>& tensors) {
  if (std::ranges::none_of(tensors, is_published)) return {};
  std::vector<PublishedTensor> all;
  for (const TensorView& tensor : tensors) {
    std::string_view name = tensor.name;
    if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
    all.push_back({.name = is_surplus(name) ? "" : std::string(name),
                   .transposed = ends_with_one_of(name, kConv1d),
                   .positions = name == "wpe.weight"});
  }
  return all;
}

}  // namespace trireme::checkpoint
