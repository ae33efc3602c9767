#include "models/gpt.h"

#include <cmath>

#include <fmt/format.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "trireme/fused.h"

#include "base/error.h"
#include "models/attention.h"
#include "models/functions.h"
#include "models/lane_seed.h"
#include "models/parallel_block.h"

namespace trireme::models {
namespace {

constexpr double kDeviation = 0.02;  // of initial values, as published

/// A module that only gives its children the names of the published weights.
class GroupImpl : public torch::nn::Module {
 public:
  template <typename Child>
  Child add(const std::string& name, Child child) {
    return register_module(name, std::move(child));
  }
};
TORCH_MODULE(Group);

/// Causal self-attention and a layer of four times the width, each behind a normalisation and beside a shortcut.
class GptBlockImpl : public torch::nn::Module {
 public:
  explicit GptBlockImpl(const GptOptions& options) : heads_(options.heads), dropout_(options.dropout) {
    const std::int64_t width = options.width;
    ln_1_ = register_module("ln_1", layer_norm(width));
    Group attention;
    c_attn_ = attention->add("c_attn", torch::nn::Linear(width, 3 * width));
    c_proj_ = attention->add("c_proj", torch::nn::Linear(width, width));
    register_module("attn", attention);
    ln_2_ = register_module("ln_2", layer_norm(width));
    Group mlp;
    c_fc_ = mlp->add("c_fc", torch::nn::Linear(width, 4 * width));
    mlp_proj_ = mlp->add("c_proj", torch::nn::Linear(4 * width, width));
    register_module("mlp", mlp);
    const double shortcut = kDeviation / std::sqrt(2.0 * static_cast<double>(options.layers));
    for (const torch::nn::Linear& linear : {c_attn_, c_fc_, c_proj_, mlp_proj_}) {
      const bool before_sum = linear.get() == c_proj_.get() || linear.get() == mlp_proj_.get();
      torch::nn::init::normal_(linear->weight, 0, before_sum ? shortcut : kDeviation);
      torch::nn::init::zeros_(linear->bias);
    }
  }

  Activations forward(const Activations& given) {
    const AddedNorm first = added(given, ln_1_);
    const AddedNorm middle = add_layer_norm(first.sum, drop(attend(first.normed)), ln_2_->weight, ln_2_->bias);
    return beside(middle.sum, drop(feed_forward(middle.normed, c_fc_, mlp_proj_)));
  }

  /// What is beside the shortcut at the end of a block, batch × length × width as the shortcut itself, is added at the
  /// beginning of the next one where that is one kernel with the normalisation.
  static Activations beside(const torch::Tensor& x, const torch::Tensor& branch) {
    if (adds_when_normalising(x, branch)) return {{"x", x}, {"branch", branch}};
    return {{"x", x + branch}};
  }
  static AddedNorm added(const Activations& given, const torch::nn::LayerNorm& norm) {
    const torch::Tensor& x = given.at("x");
    const auto branch = given.find("branch");
    if (branch != given.end()) return add_layer_norm(x, branch->second, norm->weight, norm->bias);
    return {.sum = x, .normed = trireme::layer_norm(x, norm->weight, norm->bias)};
  }

 private:
  torch::Tensor attend(const torch::Tensor& x) {
    const std::int64_t batch = x.size(0);
    const std::int64_t length = x.size(1);
    const std::int64_t width = x.size(2);
    const auto heads = [&](const torch::Tensor& part) {  // -> batch × heads × length × width of a head
      return part.reshape({batch, length, heads_, width / heads_}).transpose(1, 2);
    };
    const auto qkv = through(c_attn_, x).chunk(3, /*dim=*/2);
    const torch::Tensor mixed =
        causal_attention(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), is_training() ? dropout_ : 0.0);
    return through(c_proj_, mixed.transpose(1, 2).reshape({batch, length, width}));
  }

  static torch::Tensor through(const torch::nn::Linear& layer, const torch::Tensor& x) {
    return models::linear(x, layer->weight, layer->bias);
  }

  torch::Tensor drop(const torch::Tensor& x) const { return models::dropout(x, dropout_, is_training()); }

  std::int64_t heads_;
  double dropout_;
  torch::nn::LayerNorm ln_1_{nullptr}, ln_2_{nullptr};
  torch::nn::Linear c_attn_{nullptr}, c_proj_{nullptr}, c_fc_{nullptr}, mlp_proj_{nullptr};
};
TORCH_MODULE(GptBlock);

torch::nn::Embedding table_of(std::int64_t rows, std::int64_t width) {
  torch::nn::Embedding table(rows, width);
  torch::nn::init::normal_(table->weight, 0, kDeviation);
  return table;
}

void check_length(const GptOptions& options, std::int64_t length) {
  if (length > options.context) {
    fail<InvalidArgument>("{} tokens at once: this model sees at most {}", length, options.context);
  }
}

/// The embedding of a model whose layers are divided, where it was registered.
parallel::VocabularyParallelEmbedding divided_wte(const torch::nn::Module& root) {
  const auto wte = std::dynamic_pointer_cast<parallel::VocabularyParallelEmbeddingImpl>(root.named_children()["wte"]);
  TRIREME_CHECK(wte != nullptr, "the embedding is not divided, and the layers are");
  return parallel::VocabularyParallelEmbedding(wte);
}

LayerRun divided_embedding(const GptOptions& options, torch::nn::Module& root, parallel::TensorGroup& group) {
  const auto wpe = register_at(root, "wpe", table_of(options.context, options.width));
  return on_x([options, &group, wte = divided_wte(root), wpe](const torch::Tensor& tokens) mutable {
    const std::int64_t length = tokens.size(1);
    check_length(options, length);
    seed_from_layer(group);
    const torch::Tensor x = add_positions(group, wte->forward_to_parts(tokens), wpe->weight, length, "wpe");
    return parallel::dropout(group, x, 1, length, wpe->is_training() ? options.dropout : 0);
  });
}

/// batch × part of the length × width -> batch × length × vocabulary, or this rank's part of it.
LayerRun divided_head(const GptOptions& options, torch::nn::Module& root, const LayerPlace& place) {
  auto ln_f = register_at(root, "ln_f", parallel::SequenceLayerNorm(*place.tensor, layer_norm(options.width), "ln_f"));
  const bool whole = place.divided_output == nullptr;
  if (!whole) *place.divided_output = true;
  return on_x([&group = *place.tensor, wte = divided_wte(root), ln_f, whole](const torch::Tensor& part) mutable {
    const std::int64_t length = group.whole_length(part.size(1), "head.length");
    const auto logits = wte->logits(gather_to_lanes(group, ln_f(part, 1, length), 1, length, "head"));
    return whole ? join_lanes(group, logits, -1, wte->vocabulary(), "logits") : parallel::join_own_lanes(logits, -1);
  });
}

Layer embedding_layer(const GptOptions& options) {
  return {.name = "embedding",
          .make = [options](torch::nn::Module& root, const LayerPlace& place) -> LayerRun {
            if (is_divided(place)) return divided_embedding(options, root, *place.tensor);
            const torch::Tensor wte = parameter_at(root, "wte.weight");
            const auto wpe = register_at(root, "wpe", table_of(options.context, options.width));
            return on_x([options, wte, wpe](const torch::Tensor& tokens) {
              const std::int64_t length = tokens.size(1);
              check_length(options, length);
              const auto positions = torch::arange(length, torch::dtype(torch::kInt64).device(tokens.device()));
              return models::dropout(models::embedding(wte, tokens) + models::embedding(wpe->weight, positions),
                                     options.dropout,
                                     wpe->is_training());  // batch × length × width
            });
          },
          .divisible = true};
}

Layer gpt_block_layer(const GptOptions& options, std::int64_t i) {
  const std::string name = fmt::format("h.{}", i);
  return {.name = name,
          .make = [options, name](torch::nn::Module& root, const LayerPlace& place) -> LayerRun {
            if (is_divided(place)) {
              const BlockShape shape{.norm_1 = "ln_1",
                                     .attention = "attn.c_attn",
                                     .projection = "attn.c_proj",
                                     .norm_2 = "ln_2",
                                     .widen = "mlp.c_fc",
                                     .narrow = "mlp.c_proj",
                                     .heads = options.heads,
                                     .causal = true,
                                     .dropout = options.dropout};
              return divided_block(root, place, name, *GptBlock(options), shape);
            }
            auto block = register_at(root, name, GptBlock(options));
            return [block](const Activations& given) mutable { return block->forward(given); };
          },
          .divisible = true};
}

Layer gpt_head_layer(const GptOptions& options) {
  return {.name = "head",
          .make = [options](torch::nn::Module& root, const LayerPlace& place) -> LayerRun {
            if (is_divided(place)) return divided_head(options, root, place);
            const torch::Tensor wte = parameter_at(root, "wte.weight");
            auto ln_f = register_at(root, "ln_f", layer_norm(options.width));
            return [wte, ln_f](const Activations& given) -> Activations {
              return {{"x", wide_linear(GptBlockImpl::added(given, ln_f).normed, wte)}};
            };
          },
          .divisible = true};
}

}  // namespace

LayerList gpt(const GptOptions& options) {
  if (options.width % options.heads != 0) {
    fail<InvalidArgument>("a width of {} does not divide by {} heads", options.width, options.heads);
  }
  // Products per token, in multiplications: what a stage's time is about proportional to.
  const auto width = static_cast<double>(options.width);
  const double block = 12 * width * width + 2 * width * static_cast<double>(options.context);
  std::vector<Layer> layers{embedding_layer(options)};
  layers.back().cost = width;
  for (std::int64_t i = 0; i < options.layers; ++i) {
    layers.push_back(gpt_block_layer(options, i));
    layers.back().cost = block;
  }
  layers.push_back(gpt_head_layer(options));
  layers.back().cost = width * static_cast<double>(options.vocabulary);
  const auto make_wte = [options](torch::nn::Module& root, const LayerPlace& place) {
    const torch::nn::Embedding table = table_of(options.vocabulary, options.width);
    if (!is_divided(place)) {
      register_at(root, "wte", table);
      return;
    }
    const auto wte = register_at(root, "wte", parallel::VocabularyParallelEmbedding(*place.tensor, table, "wte"));
    note_slices(place, "wte", *wte);
  };
  return LayerList(std::move(layers), {{.parameter = "wte.weight", .layers = {"embedding", "head"}, .make = make_wte}});
}

}  // namespace trireme::models
