#include "train/compute/gradient_hooks.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/expect_fails.h"

namespace trireme {
namespace {

torch::Tensor leaf(std::initializer_list<float> values) {
  return torch::tensor(std::vector<float>(values), torch::requires_grad());
}

/// What a hooks handed out, in that order.
struct Taken {
  std::vector<std::size_t> order;
  std::map<std::size_t, torch::Tensor> gradients;

  GradientHooks::OnGradient taker() {
    return [this](std::size_t index, const torch::Tensor& gradient) {
      order.push_back(index);
      gradients[index] = gradient.defined() ? gradient.clone() : gradient;
    };
  }
};

TEST(GradientHooks, HandsOutTheLastLayersFirst) {
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::ReLU(), torch::nn::Linear(3, 2));
  const torch::Tensor loss = net->forward(torch::randn({5, 4})).pow(2).sum();
  const auto expected = torch::autograd::grad({loss}, net->parameters(), {}, /*retain_graph=*/true);

  GradientHooks hooks(net->parameters());
  Taken taken;
  hooks.backward(loss, taken.taker());

  ASSERT_EQ(taken.order.size(), 4u);
  EXPECT_TRUE(std::min(taken.order[0], taken.order[1]) == 2 && std::max(taken.order[2], taken.order[3]) == 1)
      << "the second layer's gradients come before the first's";
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(torch::equal(taken.gradients[i], expected[i])) << i;
}

TEST(GradientHooks, GradientsLeaveWhileBackwardStillRuns) {
  const torch::Tensor first = leaf({2});
  const torch::Tensor second = leaf({3});
  bool first_differentiated = false;
  torch::Tensor hidden = first * 1;
  hidden.register_hook([&](const torch::Tensor&) { first_differentiated = true; });
  bool was_early = false;
  GradientHooks({first, second}).backward((hidden * second).sum(), [&](std::size_t index, const torch::Tensor&) {
    if (index == 1) was_early = !first_differentiated;
  });
  EXPECT_TRUE(first_differentiated);
  EXPECT_TRUE(was_early);
}

TEST(GradientHooks, ClearsGradientsAfterBackward) {
  const torch::Tensor weight = leaf({1, 2});
  GradientHooks hooks({weight});
  for (int round = 0; round < 3; ++round) {  // kept gradients would add up
    Taken taken;
    hooks.backward((weight * 3).sum(), taken.taker());
    EXPECT_TRUE(torch::equal(taken.gradients[0], torch::full({2}, 3.0f)));
    EXPECT_FALSE(weight.grad().defined());
  }
}

TEST(GradientHooks, AnUnusedParameterComesLastWithoutGradient) {
  const torch::Tensor unused = leaf({1});
  const torch::Tensor used = leaf({2});
  GradientHooks hooks({used, unused});
  Taken taken;
  hooks.backward(used.sum(), taken.taker());
  EXPECT_EQ(taken.order, (std::vector<std::size_t>{0, 1}));
  EXPECT_FALSE(taken.gradients[1].defined());
}

TEST(GradientHooks, AWeightUsedTwiceComesOnceWithTheWholeGradient) {
  const torch::Tensor weight = leaf({3});
  GradientHooks hooks({weight});
  Taken taken;
  hooks.backward((weight * (weight * 5)).sum(), taken.taker());
  EXPECT_EQ(taken.order, (std::vector<std::size_t>{0}));
  EXPECT_FLOAT_EQ(taken.gradients[0].item<float>(), 30);
}

TEST(GradientHooks, ExceptionOfTheReceiverIsRethrownAndTheHooksStayUsable) {
  const torch::Tensor weight = leaf({1});
  GradientHooks hooks({weight});
  EXPECT_FAILS(
      hooks.backward(weight.sum(), [](std::size_t, const torch::Tensor&) { fail<PeerLost>("server 1 is gone"); }),
      PeerLost, "server 1 is gone");
  Taken taken;
  hooks.backward(weight.sum(), taken.taker());
  EXPECT_EQ(taken.order.size(), 1u);
}

TEST(GradientHooks, HandsOutTheSumOfWhatWasAccumulated) {
  const torch::Tensor weight = leaf({1, 2});
  const torch::Tensor only_first = leaf({3});
  const torch::Tensor never = leaf({4});
  GradientHooks hooks({weight, only_first, never});
  for (int round = 0; round < 2; ++round) {  // nothing is left from the round before
    hooks.accumulate((weight * 3).sum() + only_first.sum());
    hooks.accumulate((weight * 4).sum());
    Taken taken;
    hooks.backward((weight * 5).sum(), taken.taker());
    EXPECT_TRUE(torch::equal(taken.gradients[0], torch::full({2}, 12.0f)));
    EXPECT_TRUE(torch::equal(taken.gradients[1], torch::ones({1})));
    EXPECT_FALSE(taken.gradients[2].defined());
    EXPECT_EQ(taken.order.size(), 3u);
    for (const torch::Tensor& parameter : {weight, only_first, never}) EXPECT_FALSE(parameter.grad().defined());
  }
}

TEST(GradientHooks, LeavesBackwardPassesOfOthersAlone) {
  const torch::Tensor weight = leaf({1});
  GradientHooks hooks({weight});
  weight.sum().backward();
  EXPECT_TRUE(weight.grad().defined());
}

TEST(GradientHooks, ItsHooksDoNotOutliveIt) {
  const torch::Tensor weight = leaf({1});
  Taken taken;
  { GradientHooks({weight}).backward(weight.sum(), taken.taker()); }
  weight.sum().backward();
  EXPECT_EQ(taken.order.size(), 1u);
  EXPECT_TRUE(weight.grad().defined());
}

}  // namespace
}  // namespace trireme
