// GPT-2 as it is published, made from a model of ours: what load_model makes of it gives the same outputs.

#include <gtest/gtest.h>

#include "trireme/checkpoint.h"
#include "trireme/model.h"

#include "base/error.h"
#include "checkpoint/safetensors/safetensors.h"
#include "models/gpt.h"
#include "tensor/device/host_memory.h"
#include "tests/support/expect_fails.h"
#include "tests/support/temp_folder.h"

namespace trireme {
namespace {

constexpr models::GptOptions kSmall{.layers = 2, .heads = 2, .width = 8, .context = 12, .vocabulary = 20};

Model make_gpt(std::uint64_t seed, std::int64_t context = kSmall.context) {
  torch::manual_seed(seed);
  models::GptOptions options = kSmall;
  options.context = context;
  return whole_model(models::gpt(options));
}

/// Writes `gpt` with the names, masks and transposed weights of Hugging Face's files.
void write_as_published(const Model& gpt, const std::filesystem::path& path, const std::string& prefix) {
  std::vector<torch::Tensor> kept;
  std::vector<checkpoint::TensorView> views;
  const auto add = [&](const std::string& name, const torch::Tensor& tensor) {
    kept.push_back(on_host(tensor.detach()).contiguous());
    views.push_back(
        {.name = name, .dtype = DType::kF32, .shape = kept.back().sizes().vec(), .data = bytes_of(kept.back())});
  };
  for (const auto& item : gpt.module->named_parameters()) {
    const bool turned = item.value().dim() == 2 && item.key().starts_with("h.");
    add(prefix + item.key(), turned ? item.value().t() : item.value());
  }
  for (int layer = 0; layer < 2; ++layer) {
    add(fmt::format("{}h.{}.attn.bias", prefix, layer), torch::ones({1, 1, 12, 12}).tril());
    add(fmt::format("{}h.{}.attn.masked_bias", prefix, layer), torch::tensor(-1e4f));
  }
  add("lm_head.weight", gpt.module->named_parameters()["wte.weight"]);
  checkpoint::write_safetensors(path, views, {});
}

torch::Tensor outputs_of(const Model& gpt, std::int64_t length) {
  const torch::NoGradGuard no_grad;
  gpt.module->eval();
  return gpt.forward((torch::arange(2 * length) % kSmall.vocabulary).reshape({2, length}));
}

TEST(PublishedGpt2, LoadedStrictlyAndByPrefix_GivesTheSameOutputs) {
  const TempFolder folder;
  const Model original = make_gpt(1);
  write_as_published(original, folder / "plain.safetensors", "");
  write_as_published(original, folder / "prefixed.safetensors", "transformer.");
  const torch::Tensor wanted = outputs_of(original, 12);
  for (const auto& [file, prefix] : {std::pair("plain.safetensors", ""), std::pair("prefixed.safetensors", ""),
                                     std::pair("prefixed.safetensors", "transformer.")}) {
    const Model loaded = make_gpt(2);
    EXPECT_FALSE(torch::equal(outputs_of(loaded, 12), wanted));
    const LoadReport report = load_model(*loaded.module, folder / file, {.prefix = prefix});
    EXPECT_EQ(report.loaded, report.of) << file;
    EXPECT_TRUE(torch::equal(outputs_of(loaded, 12), wanted)) << file << " under '" << prefix << "'";
  }
}

TEST(PublishedGpt2, ShorterContext_TakesTheFirstPositions) {
  const TempFolder folder;
  const Model original = make_gpt(1);
  write_as_published(original, folder / "m.safetensors", "transformer.");
  const Model shorter = make_gpt(2, /*context=*/5);
  load_model(*shorter.module, folder / "m.safetensors");
  EXPECT_TRUE(torch::equal(outputs_of(shorter, 5), outputs_of(original, 5)));
  const Model longer = make_gpt(2, /*context=*/20);
  EXPECT_FAILS(load_model(*longer.module, folder / "m.safetensors"), InvalidArgument, "'wpe.weight' is Float [12, 8]");
}

}  // namespace
}  // namespace trireme
