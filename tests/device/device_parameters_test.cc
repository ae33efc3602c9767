#include "train/strategy/device_parameters.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "tensor/device/host_memory.h"
#include "train/strategy/host_parameters.h"

namespace trireme {
namespace {

using Spans = std::vector<std::span<const float>>;

torch::nn::Sequential make_net() {
  torch::manual_seed(7);
  return torch::nn::Sequential(torch::nn::Linear(9, 20), torch::nn::Linear(20, 3));
}

/// Gradients one after the other, with zeros in between, as they are in buckets.
struct Gradients {
  explicit Gradients(const OwnParameters& parameters, std::uint64_t seed) {
    torch::manual_seed(seed);
    std::size_t total = 0;
    for (const std::size_t elements : parameters.elements()) total += elements + 5;
    memory = torch::zeros({static_cast<std::int64_t>(total)});
    float* at = memory.data_ptr<float>();
    for (const std::size_t elements : parameters.elements()) {
      torch::from_blob(at, {static_cast<std::int64_t>(elements)}).normal_();
      spans.emplace_back(at, elements);
      at += elements + 5;
    }
  }
  torch::Tensor memory;
  Spans spans;
};

ParameterUpdates updates_of(optim::Rule rule) {
  ParameterUpdates updates{.clip_norm = 0.5};
  updates.config = {.rule = rule, .l2 = 0.01, .ema = 0.9, .prunes = true};
  updates.groups = {optim::parse_group("1d:decay=0,lr=0.5")};
  updates.prune = {.sparsity = 0.3, .from = 1, .to = 4, .every = 1};
  return updates;
}

void expect_same_state(OwnParameters& one, OwnParameters& other) {
  const auto a = one.state();
  const auto b = other.state();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    EXPECT_TRUE(torch::equal(a[i].tensor, b[i].tensor)) << a[i].name;
  }
}

TEST(DeviceParameters, UpdatesHaveTheBitsOfTheHosts) {
  for (const optim::Rule rule : {optim::Rule::kSgd, optim::Rule::kAdamW, optim::Rule::kFtrl}) {
    const auto host_net = make_net();
    const auto device_net = make_net();
    HostParameters host(*host_net, updates_of(rule));
    DeviceParameters device(*device_net, updates_of(rule));
    for (Step step = 0; step < 5; ++step) {
      const Gradients gradients(host, 100 + step);
      const double factor = host.clip_factor(gradients.spans, 8, step);
      EXPECT_NEAR(device.clip_factor(gradients.spans, 8, step), factor, 1e-9 * factor);
      const optim::UpdateInput input{.step = step + 1, .lr = 0.05, .gradient_scale = factor / 8};
      host.update(input, step, gradients.spans);
      device.update(input, step, gradients.spans);
      expect_same_state(host, device);
    }
    host.show_averages();
    device.show_averages();
    for (std::size_t i = 0; i < host_net->parameters().size(); ++i) {
      EXPECT_TRUE(torch::equal(host_net->parameters()[i], device_net->parameters()[i])) << "averages of " << i;
    }
    expect_same_state(host, device);  // which are the parameters' own again
  }
}

TEST(DeviceParameters, WhatIsForeseenChangesNoBits) {
  const auto host_net = make_net();
  const auto device_net = make_net();
  HostParameters host(*host_net, updates_of(optim::Rule::kAdamW));
  DeviceParameters device(*device_net, updates_of(optim::Rule::kAdamW));
  const Gradients gradients(host, 100);
  const Gradients others(host, 101);
  for (Step step = 0; step < 6; ++step) {
    device.begin_step();
    optim::UpdateInput input{.step = step + 1, .lr = 0.05};
    if (step == 2) device.foresee(gradients.spans, input, step);
    if (step == 3) device.foresee(gradients.spans, {.step = step + 1, .lr = 0.5}, step);  // it comes otherwise
    if (step == 4) {                                                                      // the step is not made
      device.foresee(others.spans, input, step);
      device.begin_step();
    }
    const double factor = host.clip_factor(gradients.spans, 8, step);
    EXPECT_NEAR(device.clip_factor(gradients.spans, 8, step), factor, 1e-9 * factor) << step;
    input.gradient_scale = factor / 8;
    host.update(input, step, gradients.spans);
    device.update(input, step, gradients.spans);
    expect_same_state(host, device);
  }
}

TEST(DeviceParameters, TakeTheStateOfOthers) {
  const auto from_net = make_net();
  const auto to_net = make_net();
  DeviceParameters from(*from_net, updates_of(optim::Rule::kAdam));
  DeviceParameters to(*to_net, updates_of(optim::Rule::kAdam));
  const Gradients gradients(from, 5);
  from.update({.step = 1, .lr = 0.1}, 0, gradients.spans);
  const auto state = from.state();
  const auto place = to.state();
  for (std::size_t i = 0; i < state.size(); ++i) torch::Tensor(place[i].tensor).copy_(state[i].tensor);
  to.take_state();
  expect_same_state(from, to);
  EXPECT_TRUE(torch::equal(from_net->parameters()[0], to_net->parameters()[0]));
}

TEST(DeviceParameters, GradientsThatAreNotFiniteDoNotCount) {
  ParameterUpdates updates;
  updates.loss_scale = {.dynamic = true};
  const auto net = make_net();
  DeviceParameters parameters(*net, updates);
  const Gradients gradients(parameters, 6);
  EXPECT_TRUE(parameters.counts(gradients.spans));
  const_cast<float&>(gradients.spans[1][3]) = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(parameters.counts(gradients.spans));
}

}  // namespace
}  // namespace trireme
