// The update rules of the servers against their twins in torch::optim: the same gradients, the same parameters.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "optim/update_rule.h"

namespace trireme::ps {
namespace {

using Optimizer = std::unique_ptr<torch::optim::Optimizer>;
using Parameters = std::vector<torch::Tensor>;

/// A rule of ours and the optimizer of torch that it equals, both at learning rate `lr`.
struct Twin {
  std::string name;
  double lr;
  optim::UpdateConfig config;
  std::function<Optimizer(Parameters)> optimizer;
};

template <typename TorchOptimizer, typename Options>
std::function<Optimizer(Parameters)> torch_optimizer(Options options) {
  return [=](Parameters parameters) { return std::make_unique<TorchOptimizer>(std::move(parameters), options); };
}

/// Every rule that torch has, with weight decay `l2`.
std::vector<Twin> twins(double l2) {
  using namespace torch::optim;
  const auto sgd = [=](double lr) { return SGDOptions(lr).weight_decay(l2); };
  return {
      {"sgd", 0.1, {.rule = optim::Rule::kSgd, .l2 = l2}, torch_optimizer<SGD>(sgd(0.1))},
      {"momentum", 0.01, {.rule = optim::Rule::kMomentum, .l2 = l2}, torch_optimizer<SGD>(sgd(0.01).momentum(0.9))},
      {"momentum, dampened",
       0.05,
       {.rule = optim::Rule::kMomentum, .momentum = 0.8, .dampening = 0.3, .l2 = l2},
       torch_optimizer<SGD>(sgd(0.05).momentum(0.8).dampening(0.3))},
      {"nesterov",
       0.01,
       {.rule = optim::Rule::kNesterov, .l2 = l2},
       torch_optimizer<SGD>(sgd(0.01).momentum(0.9).nesterov(true))},
      {"adagrad",
       0.01,
       {.rule = optim::Rule::kAdagrad, .l2 = l2},
       torch_optimizer<Adagrad>(AdagradOptions(0.01).weight_decay(l2))},
      {"rmsprop",
       0.001,
       {.rule = optim::Rule::kRmsProp, .l2 = l2},
       torch_optimizer<RMSprop>(RMSpropOptions(0.001).weight_decay(l2))},
      {"rmsprop, alpha and epsilon given",
       0.01,
       {.rule = optim::Rule::kRmsProp, .alpha = 0.9, .epsilon = 1e-4, .l2 = l2},
       torch_optimizer<RMSprop>(RMSpropOptions(0.01).alpha(0.9).eps(1e-4).weight_decay(l2))},
      {"adam",
       0.001,
       {.rule = optim::Rule::kAdam, .l2 = l2},
       torch_optimizer<Adam>(AdamOptions(0.001).weight_decay(l2))},
      {"adam, betas and epsilon given",
       0.01,
       {.rule = optim::Rule::kAdam, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-5, .l2 = l2},
       torch_optimizer<Adam>(AdamOptions(0.01).betas({0.8, 0.95}).eps(1e-5).weight_decay(l2))},
      {"adamw",
       0.001,
       {.rule = optim::Rule::kAdamW, .l2 = l2},
       torch_optimizer<AdamW>(AdamWOptions(0.001).weight_decay(l2))},
  };
}

std::span<float> floats(const torch::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

/// The largest difference after `steps` updates, relative to the magnitude of the parameters (root mean square, or the
/// element itself where that is larger).
double largest_difference(const Twin& twin, Step steps) {
  constexpr std::int64_t kCount = 1009;
  torch::manual_seed(1);
  const torch::Tensor theirs = torch::randn({kCount}).set_requires_grad(true);
  const torch::Tensor ours = theirs.detach().clone();
  std::vector<float> state(optim::state_floats(twin.config) * kCount);
  const Optimizer optimizer = twin.optimizer({theirs});
  for (Step step = 1; step <= steps; ++step) {
    const torch::Tensor gradient = torch::randn({kCount});
    theirs.mutable_grad() = gradient.clone();
    optimizer->step();
    optim::apply_update(twin.config, {.step = step, .lr = twin.lr}, floats(ours),
                        optim::state_at(twin.config, state, kCount), floats(gradient));
  }
  const torch::Tensor expected = theirs.detach().to(torch::kFloat64);
  const torch::Tensor magnitude = expected.abs().clamp_min(expected.square().mean().sqrt().item<double>());
  return ((ours.to(torch::kFloat64) - expected).abs() / magnitude).max().item<double>();
}

class UpdateRuleTwin : public ::testing::TestWithParam<double> {};  // weight decay

TEST_P(UpdateRuleTwin, EqualsTorchAfterTheFirstStep) {
  for (const Twin& twin : twins(GetParam())) EXPECT_LT(largest_difference(twin, 1), 2e-7) << twin.name;
}

TEST_P(UpdateRuleTwin, EqualsTorchAfterAHundredSteps) {
  for (const Twin& twin : twins(GetParam())) EXPECT_LT(largest_difference(twin, 100), 1e-6) << twin.name;
}

INSTANTIATE_TEST_SUITE_P(WeightDecay, UpdateRuleTwin, ::testing::Values(0.0, 0.01));

TEST(UpdateRuleTwins, ComparisonDetectsADifferentRule) {
  for (Twin twin : twins(0.01)) {
    twin.config.l2 = 0.02;
    EXPECT_GT(largest_difference(twin, 100), 1e-6) << twin.name;
  }
}

}  // namespace
}  // namespace trireme::ps
