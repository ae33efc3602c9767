#include <algorithm>

#include "base/error.h"
#include "plan/cost/layer_builders.h"

namespace trireme::plan {
namespace {

constexpr std::uint64_t kUsualLength = 1024;
constexpr std::uint64_t kUsualVocabulary = 50257;
constexpr double kFloat = 4;  // bytes; losses are computed in fp32 whatever the precision

/// Bytes of what `norms` layer norms keep beside their input: the mean and the deviation of each position.
double norm_statistics(double norms, double positions) { return norms * positions * 2 * kFloat; }

/// What comes and goes in a block's backward, at two moments. Behind the last product: the gradient that came in, and
/// that of the four widths before it. In the softmax, where it is not fused: its own gradient and that of its input,
/// for all pairs of tokens, and three widths, when the ten widths of the second half are kept no longer.
double passing_in_block(double states, double pairs, bool fused_attention) {
  const double behind_products = 5 * states;
  return fused_attention ? behind_products : std::max(behind_products, 2 * pairs + 3 * states - 10 * states);
}

}  // namespace

LayerCost transformer_block(const TransformerShape& shape, std::uint64_t length, bool fused_attention) {
  const std::uint64_t h = shape.width;
  const auto width = static_cast<double>(h);
  const auto tokens = static_cast<double>(length);
  LayerCost block;
  block.add_tensors({h, h, 3 * h * h, 3 * h, h * h, h, h, h, 4 * h * h, 4 * h, 4 * h * h, h});
  block.split_parameters = 12 * h * h + 7 * h;  // all but the two norms and the biases after the sums
  block.forward_flops = tokens * (24 * width * width + 4 * tokens * width);
  // Kept besides the input, in widths: after the first norm 1, queries, keys and values 3, what attention gives 1, the
  // sum with the shortcut 1, after the second norm 1, before and after GELU 4 each.
  block.input = tokens * width;
  block.kept = 15 * tokens * width;
  block.kept_bytes = norm_statistics(2, tokens);
  block.gathered = 2 * tokens * width;   // what comes out of the norms, in front of the products that are divided
  block.deferred = 16 * tokens * width;  // what goes into each of the four products, and the gradient of its result
  block.passing = passing_in_block(tokens * width, static_cast<double>(shape.heads) * tokens * tokens, fused_attention);
  block.passing_more = 4 * tokens * width;  // what goes into the last product, while GELU's gradient is computed
  if (!fused_attention) block.kept += static_cast<double>(shape.heads) * tokens * tokens;
  if (shape.dropout) {  // which elements stay, of both halves and, behind the softmax, of all pairs of tokens
    block.kept += 2 * tokens * width + 2 * static_cast<double>(shape.heads) * tokens * tokens;
    if (fused_attention) block.kept += static_cast<double>(shape.heads) * tokens * tokens;
  }
  block.output = tokens * width;
  block.summed_forward = 2 * tokens * width;
  block.summed_backward = 2 * tokens * width;
  block.recomputable = true;
  return block;
}

ModelCost gpt_cost(std::string name, const TransformerShape& shape, const ModelInput& input) {
  const std::uint64_t length = input.length == 0 ? kUsualLength : input.length;
  const std::uint64_t vocabulary = input.classes == 0 ? kUsualVocabulary : input.classes;
  if (!input.shape.empty()) fail<InvalidArgument>("{} takes tokens, not images: give a length", name);
  const auto states = static_cast<double>(length * shape.width);
  ModelCost cost{.name = std::move(name), .sample = fmt::format("{} tokens", length), .input = input};
  cost.input.length = length;
  cost.input.classes = vocabulary;
  cost.heads = static_cast<std::uint32_t>(shape.heads);
  LayerCost embedding{.name = "embedding"};
  embedding.add_tensors({vocabulary * shape.width, length * shape.width});
  embedding.split_parameters = vocabulary * shape.width;
  embedding.kept_bytes = 8.0 * static_cast<double>(length);  // the tokens
  if (shape.dropout) embedding.kept = states;
  embedding.deferred = embedding.passing = states;
  embedding.output = embedding.summed_forward = states;
  cost.layers.push_back(embedding);
  LayerCost block = transformer_block(shape, length, input.fused_attention);
  for (std::uint64_t i = 0; i < shape.layers; ++i) {
    block.name = fmt::format("block {}", i);
    cost.layers.push_back(block);
  }
  LayerCost head{.name = "head"};
  head.add_tensors({shape.width, shape.width});
  const auto logits = static_cast<double>(length * vocabulary);
  head.forward_flops = 2 * states * static_cast<double>(vocabulary);
  head.input = states;
  head.kept = states;
  head.kept_bytes = norm_statistics(1, static_cast<double>(length));
  head.gathered = states;
  head.deferred = states + logits;
  head.passing = states;
  head.loss_bytes = logits * kFloat;
  head.summed_backward = states;
  cost.layers.push_back(head);
  cost.tied_parameters = vocabulary * shape.width;
  return cost;
}

ModelCost vit_cost(std::string name, const TransformerShape& shape, std::uint64_t size, const ModelInput& input) {
  const std::vector<std::uint64_t> image = image_shape(name, input, {3, 32, 32});
  const std::uint64_t patch = size > 0 ? size : image[1] > 64 ? 16 : 4;
  if (image[1] % patch != 0 || image[2] % patch != 0) {
    fail<InvalidArgument>("{}: images of {}x{} cannot be cut into patches of {}x{}", name, image[1], image[2], patch,
                          patch);
  }
  const std::uint64_t classes = input.classes == 0 ? 10 : input.classes;
  const std::uint64_t length = (image[1] / patch) * (image[2] / patch);
  const std::uint64_t dots = image[0] * patch * patch;
  const auto states = static_cast<double>(length * shape.width);
  ModelCost cost{
      .name = std::move(name), .sample = fmt::format("{}x{}x{}", image[0], image[1], image[2]), .input = input};
  cost.input.shape = image;
  cost.input.classes = classes;
  cost.heads = static_cast<std::uint32_t>(shape.heads);
  LayerCost patches{.name = "patches"};
  patches.add_tensors({length * shape.width, dots * shape.width, shape.width});
  patches.deferred = patches.passing = states;
  patches.forward_flops = 2 * static_cast<double>(dots) * states;
  patches.input = static_cast<double>(length * dots);
  patches.output = states;
  cost.layers.push_back(patches);
  LayerCost block = transformer_block(shape, length, input.fused_attention);
  for (std::uint64_t i = 0; i < shape.layers; ++i) {
    block.name = fmt::format("block {}", i);
    cost.layers.push_back(block);
  }
  LayerCost head{.name = "head"};
  head.add_tensors({shape.width, shape.width, shape.width * classes, classes});
  head.forward_flops = 2 * static_cast<double>(shape.width * classes);
  head.input = states;
  head.kept = static_cast<double>(shape.width);
  head.kept_bytes = norm_statistics(1, static_cast<double>(length));
  head.deferred = static_cast<double>(shape.width + classes);
  head.passing = states;
  head.loss_bytes = static_cast<double>(classes) * kFloat;
  cost.layers.push_back(head);
  return cost;
}

ModelCost lstm_cost(std::string name, std::uint64_t layers, std::uint64_t width, const ModelInput& input) {
  if (!input.shape.empty()) fail<InvalidArgument>("{} takes tokens, not images: give a length", name);
  const std::uint64_t length = input.length == 0 ? kUsualLength : input.length;
  const std::uint64_t vocabulary = input.classes == 0 ? 256 : input.classes;
  const auto states = static_cast<double>(length * width);
  ModelCost cost{.name = std::move(name), .sample = fmt::format("{} tokens", length), .input = input};
  cost.input.length = length;
  cost.input.classes = vocabulary;
  LayerCost embedding{.name = "embedding"};
  embedding.add_tensors({vocabulary * width});
  embedding.passing = states;
  embedding.kept_bytes = 8.0 * static_cast<double>(length);
  embedding.output = states;
  cost.layers.push_back(embedding);
  for (std::uint64_t i = 0; i < layers; ++i) {
    LayerCost layer{.name = fmt::format("lstm {}", i)};
    layer.add_tensors({4 * width * width, 4 * width * width, 4 * width, 4 * width});
    layer.passing = 5 * states;  // the gradients of the four gates and of the state
    layer.forward_flops = states * 16 * static_cast<double>(width);
    layer.input = states;
    layer.kept = 7 * states;  // four gates, the cell before and after its tanh, the state
    layer.output = states;
    cost.layers.push_back(layer);
  }
  LayerCost head{.name = "head"};
  head.add_tensors({width * vocabulary, vocabulary});
  head.forward_flops = 2 * states * static_cast<double>(vocabulary);
  head.input = states;
  head.passing = states;
  head.loss_bytes = static_cast<double>(length * vocabulary) * kFloat;
  cost.layers.push_back(head);
  return cost;
}

}  // namespace trireme::plan
