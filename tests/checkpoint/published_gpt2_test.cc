#include "checkpoint/safetensors/published_gpt2.h"

#include <gtest/gtest.h>

namespace trireme::checkpoint {
namespace {

TensorView view(const char* name, std::vector<std::int64_t> shape) { return {.name = name, .shape = std::move(shape)}; }

TEST(RecogniseGpt2, PublishedNames_AreOursWithoutMasksAndTheTiedLayer) {
  for (const std::string prefix : {"", "transformer."}) {
    const std::vector<TensorView> tensors{view((prefix + "wte.weight").c_str(), {10, 8}),
                                          view((prefix + "wpe.weight").c_str(), {16, 8}),
                                          view((prefix + "h.0.attn.bias").c_str(), {1, 1, 16, 16}),
                                          view((prefix + "h.0.attn.masked_bias").c_str(), {}),
                                          view((prefix + "h.0.attn.c_attn.weight").c_str(), {8, 24}),
                                          view((prefix + "h.0.attn.c_attn.bias").c_str(), {24}),
                                          view((prefix + "h.0.attn.c_proj.weight").c_str(), {8, 8}),
                                          view("lm_head.weight", {10, 8})};
    const auto found = recognise_gpt2(tensors);
    ASSERT_EQ(found.size(), tensors.size());
    EXPECT_EQ(found[0].name, "wte.weight");
    EXPECT_FALSE(found[0].transposed);
    EXPECT_TRUE(found[1].positions);
    EXPECT_EQ(found[2].name, "");
    EXPECT_EQ(found[3].name, "");
    EXPECT_EQ(found[4].name, "h.0.attn.c_attn.weight");
    EXPECT_TRUE(found[4].transposed);
    EXPECT_EQ(found[5].name, "h.0.attn.c_attn.bias");
    EXPECT_FALSE(found[5].transposed);
    EXPECT_TRUE(found[6].transposed) << "square: only the file as a whole tells";
    EXPECT_EQ(found[7].name, "");
  }
}

TEST(RecogniseGpt2, OurOwnAndOtherModels_AreNot) {
  EXPECT_TRUE(recognise_gpt2({view("wte.weight", {10, 8}), view("h.0.attn.c_attn.weight", {24, 8})}).empty());
  EXPECT_TRUE(recognise_gpt2({view("fc1.weight", {8, 24})}).empty());
  EXPECT_TRUE(recognise_gpt2({view("h.0.attn.c_attn.weight", {24})}).empty());
  EXPECT_TRUE(recognise_gpt2({}).empty());
}

}  // namespace
}  // namespace trireme::checkpoint
