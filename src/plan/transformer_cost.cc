#include "base/error.h"
#include "plan/layer_builders.h"

namespace trireme::plan {
namespace {

constexpr std::uint64_t kUsualLength = 1024;
constexpr std::uint64_t kUsualVocabulary = 50257;
constexpr double kFloat = 4;  // bytes; losses are computed in fp32 whatever the precision

/// What the logits and the loss of `outputs` classes keep: the logits, and their logarithmic softmax in fp32.
void add_loss(LayerCost& layer, double positions, double outputs) {
  layer.kept += positions * outputs;
  layer.kept_bytes += positions * outputs * kFloat;
}

}  // namespace

LayerCost transformer_block(const TransformerShape& shape, std::uint64_t length, bool fused_attention) {
  const std::uint64_t h = shape.width;
  const auto width = static_cast<double>(h);
  const auto tokens = static_cast<double>(length);
  LayerCost block;
  block.parameters = 12 * h * h + 13 * h;
  block.split_parameters = 12 * h * h + 7 * h;  // all but the two norms and the biases after the sums
  block.forward_flops = tokens * (24 * width * width + 4 * tokens * width);
  // Kept besides the input, in widths: after the first norm 1, queries, keys and values 3, what attention gives 1, the
  // sum with the shortcut 1, after the second norm 1, before and after GELU 4 each.
  block.input = tokens * width;
  block.kept = 15 * tokens * width;
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
  embedding.parameters = (vocabulary + length) * shape.width;
  embedding.split_parameters = vocabulary * shape.width;
  embedding.kept_bytes = 8.0 * static_cast<double>(length);  // the tokens
  if (shape.dropout) embedding.kept = states;
  embedding.output = embedding.summed_forward = states;
  cost.layers.push_back(embedding);
  LayerCost block = transformer_block(shape, length, input.fused_attention);
  for (std::uint64_t i = 0; i < shape.layers; ++i) {
    block.name = fmt::format("block {}", i);
    cost.layers.push_back(block);
  }
  LayerCost head{.name = "head"};
  head.parameters = 2 * shape.width;
  head.forward_flops = 2 * states * static_cast<double>(vocabulary);
  head.input = states;
  head.kept = states;
  head.summed_backward = states;
  add_loss(head, static_cast<double>(length), static_cast<double>(vocabulary));
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
  patches.parameters = dots * shape.width + shape.width + length * shape.width;
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
  head.parameters = 2 * shape.width + shape.width * classes + classes;
  head.forward_flops = 2 * static_cast<double>(shape.width * classes);
  head.input = states;
  head.kept = static_cast<double>(shape.width);
  add_loss(head, 1, static_cast<double>(classes));
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
  embedding.parameters = vocabulary * width;
  embedding.kept_bytes = 8.0 * static_cast<double>(length);
  embedding.output = states;
  cost.layers.push_back(embedding);
  for (std::uint64_t i = 0; i < layers; ++i) {
    LayerCost layer{.name = fmt::format("lstm {}", i)};
    layer.parameters = 8 * width * width + 8 * width;
    layer.forward_flops = states * 16 * static_cast<double>(width);
    layer.input = states;
    layer.kept = 7 * states;  // four gates, the cell before and after its tanh, the state
    layer.output = states;
    cost.layers.push_back(layer);
  }
  LayerCost head{.name = "head"};
  head.parameters = (width + 1) * vocabulary;
  head.forward_flops = 2 * states * static_cast<double>(vocabulary);
  head.input = states;
  add_loss(head, static_cast<double>(length), static_cast<double>(vocabulary));
  cost.layers.push_back(head);
  return cost;
}

}  // namespace trireme::plan
