#include "trireme/fused.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "models/functions.h"
#include "tensor/autocast.h"
#include "tensor/device/device_kernels.h"

// Functions that are kernels on a device, beside what LibTorch's own give: values and gradients.

namespace trireme {
namespace {

using torch::Tensor;

Tensor leaf(const Tensor& values) { return values.clone().requires_grad_(true); }

void expect_close(const Tensor& got, const Tensor& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(got.sizes(), expected.sizes()) << what;
  EXPECT_TRUE(torch::allclose(got.to(torch::kFloat32), expected.to(torch::kFloat32), tolerance, tolerance))
      << what << ": " << (got.to(torch::kFloat32) - expected.to(torch::kFloat32)).abs().max().item<float>();
}

class FusedFunctions : public ::testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(1);
    ASSERT_TRUE(device::runs_on(torch::kCPU)) << "the emulation is not linked";
  }
};

TEST_F(FusedFunctions, AddLayerNorm) {
  const Tensor values = torch::randn({3, 5, 64});
  const Tensor more = torch::randn({3, 5, 64});
  const Tensor scales = torch::randn({64});
  const Tensor offsets = torch::randn({64});
  for (const bool use_sum : {true, false}) {
    Tensor x = leaf(values), branch = leaf(more), scale = leaf(scales), offset = leaf(offsets);
    const AddedNorm ours = add_layer_norm(x, branch, scale, offset);
    Tensor x2 = leaf(values), branch2 = leaf(more), scale2 = leaf(scales), offset2 = leaf(offsets);
    const Tensor sum = x2 + branch2;
    const Tensor normed = torch::layer_norm(sum, {64}, scale2, offset2);
    expect_close(ours.sum, sum, 1e-6, "sum");
    expect_close(ours.normed, normed, 1e-5, "normed");
    const Tensor weight = torch::randn({3, 5, 64});
    ((ours.normed * weight).sum() + (use_sum ? ours.sum.square().sum() : torch::zeros({}))).backward();
    ((normed * weight).sum() + (use_sum ? sum.square().sum() : torch::zeros({}))).backward();
    expect_close(x.grad(), x2.grad(), 1e-4, "x");
    expect_close(branch.grad(), branch2.grad(), 1e-4, "branch");
    expect_close(scale.grad(), scale2.grad(), 1e-4, "scale");
    expect_close(offset.grad(), offset2.grad(), 1e-4, "offset");
  }
}

TEST_F(FusedFunctions, OnlyTheSumIsUsed) {
  Tensor x = leaf(torch::randn({2, 8})), branch = leaf(torch::randn({2, 8}));
  const Tensor scale = torch::ones({8}), offset = torch::zeros({8});
  add_layer_norm(x, branch, scale, offset).sum.sum().backward();
  expect_close(x.grad(), torch::ones({2, 8}), 0, "x");
  expect_close(branch.grad(), torch::ones({2, 8}), 0, "branch");
}

TEST_F(FusedFunctions, LayerNormUnderAutocastGivesItsPrecision) {
  const AutocastScope precision(Precision::kBf16, torch::kCPU);
  Tensor x = leaf(torch::randn({4, 32})), scale = leaf(torch::ones({32})), offset = leaf(torch::zeros({32}));
  const Tensor normed = layer_norm(x, scale, offset);
  EXPECT_EQ(normed.scalar_type(), torch::kBFloat16);
  normed.sum().backward();
  EXPECT_EQ(x.grad().scalar_type(), torch::kFloat32);
  EXPECT_EQ(scale.grad().scalar_type(), torch::kFloat32);
}

/// Widths that the kernels do not take are LibTorch's.
TEST_F(FusedFunctions, LayerNormOfAnyWidth) {
  Tensor x = leaf(torch::randn({4, 7})), scale = leaf(torch::ones({7})), offset = leaf(torch::zeros({7}));
  expect_close(layer_norm(x, scale, offset), torch::layer_norm(x, {7}, scale, offset), 1e-6, "normed");
}

TEST_F(FusedFunctions, CrossEntropy) {
  const Tensor values = torch::randn({6, 100}) * 3;
  const Tensor targets = torch::randint(100, {6}, torch::kInt64);
  Tensor logits = leaf(values), logits2 = leaf(values);
  // A view, as a model's output is: the leaf itself must not change.
  const Tensor ours = cross_entropy(logits * 1, targets);
  const Tensor theirs = torch::cross_entropy_loss(logits2, targets);
  expect_close(ours, theirs, 1e-5, "loss");
  (ours * 3).backward();
  (theirs * 3).backward();
  expect_close(logits.grad(), logits2.grad(), 1e-5, "logits");
}

/// The head of a language model: rows of logits have gaps, which go through the loss and back.
/// Whatever the loss is multiplied by, and whatever was expected.
TEST_F(FusedFunctions, LastCrossEntropyHasTheGradientsOfTheOther) {
  const Tensor values = torch::randn({6, 50});
  const Tensor targets = torch::randint(50, {6}, torch::kInt64);
  for (const double factor : {1.0, 32.0}) {
    Tensor logits = leaf(values), other = leaf(values), expected = leaf(values);
    (cross_entropy(expected.clone(), targets) * 32).backward();
    const Tensor loss = last_cross_entropy(logits.clone(), targets, factor);
    EXPECT_FLOAT_EQ(loss.item<float>(), cross_entropy(other.clone(), targets).item<float>());
    (loss * 32).backward();
    expect_close(logits.grad(), expected.grad(), factor == 32.0 ? 0 : 1e-6, "logits");
  }
}

TEST_F(FusedFunctions, LastCrossEntropyWithoutGradientsLeavesTheLogits) {
  const torch::NoGradGuard no_grad;
  const Tensor values = torch::randn({6, 50});
  const Tensor logits = values.clone();
  last_cross_entropy(logits, torch::randint(50, {6}, torch::kInt64), 8);
  EXPECT_TRUE(torch::equal(logits, values));
}

TEST_F(FusedFunctions, WideLinearAndCrossEntropy) {
  const Tensor values = torch::randn({2, 3, 16});
  const Tensor weights = torch::randn({50, 16});
  const Tensor targets = torch::randint(50, {6}, torch::kInt64);
  Tensor x = leaf(values), weight = leaf(weights), x2 = leaf(values), weight2 = leaf(weights);
  Tensor ours;
  {
    const AutocastScope precision(Precision::kBf16, torch::kCPU);
    const Tensor logits = models::wide_linear(x, weight);
    EXPECT_EQ(logits.sizes(), (std::vector<std::int64_t>{2, 3, 50}));
    EXPECT_EQ(logits.stride(1), 128);
    ours = cross_entropy(logits.flatten(0, -2), targets);
  }
  const Tensor theirs = torch::cross_entropy_loss(torch::linear(x2, weight2).reshape({6, 50}), targets);
  expect_close(ours, theirs, 3e-2, "loss");
  ours.backward();
  theirs.backward();
  EXPECT_EQ(weight.grad().scalar_type(), torch::kFloat32);
  expect_close(x.grad(), x2.grad(), 3e-2, "x");
  expect_close(weight.grad(), weight2.grad(), 3e-2, "weight");
}

/// A gradient that does not come from our cross entropy has no room beyond its rows.
TEST_F(FusedFunctions, WideLinearWithAnyGradient) {
  Tensor x = leaf(torch::randn({4, 16})), weight = leaf(torch::randn({50, 16}));
  Tensor ours;
  {
    const AutocastScope precision(Precision::kBf16, torch::kCPU);
    ours = models::wide_linear(x, weight);
  }
  ours.sum().backward();
  expect_close(x.grad(), weight.detach().sum(0).expand({4, 16}), 5e-2, "x");
  expect_close(weight.grad(), x.detach().sum(0).expand({50, 16}), 5e-2, "weight");
}

/// `frozen`: the first layer's bias is not trained.
void expect_feed_forward(const std::vector<std::int64_t>& shape, bool frozen) {
  SCOPED_TRACE(::testing::Message() << shape.front() << " samples " << frozen);
  torch::manual_seed(2);
  torch::nn::Linear first(16, 32), second(32, 8), first2(16, 32), second2(32, 8);
  const auto equal = [](torch::nn::Linear& to, const torch::nn::Linear& from) {
    const torch::NoGradGuard no_grad;
    to->weight.copy_(from->weight);
    to->bias.copy_(from->bias);
  };
  equal(first2, first);
  equal(second2, second);
  first->bias.set_requires_grad(!frozen);
  const Tensor values = torch::randn(shape);
  Tensor x = leaf(values), x2 = leaf(values);
  Tensor ours;
  {
    const AutocastScope precision(Precision::kBf16, torch::kCPU);
    ours = models::feed_forward(x, first, second);
  }
  EXPECT_EQ(ours.scalar_type(), torch::kBFloat16);
  const Tensor theirs = second2->forward(torch::gelu(first2->forward(x2), "tanh"));
  expect_close(ours, theirs, 3e-2, "result");
  ours.to(torch::kFloat32).square().sum().backward();
  theirs.square().sum().backward();
  expect_close(x.grad(), x2.grad(), 8e-2, "x");
  expect_close(first->weight.grad(), first2->weight.grad(), 8e-2, "first weight");
  if (!frozen) expect_close(first->bias.grad(), first2->bias.grad(), 8e-2, "first bias");
  expect_close(second->weight.grad(), second2->weight.grad(), 8e-2, "second weight");
  expect_close(second->bias.grad(), second2->bias.grad(), 8e-2, "second bias");
  EXPECT_EQ(first->weight.grad().scalar_type(), torch::kFloat32);
}

TEST_F(FusedFunctions, FeedForward) {
  expect_feed_forward({2, 8, 16}, false);
  expect_feed_forward({2, 8, 16}, true);
  expect_feed_forward({5, 16}, false);  // rows that do not fit: layer by layer
}

}  // namespace
}  // namespace trireme
