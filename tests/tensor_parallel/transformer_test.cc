// The networks that come with Trireme, divided by a tensor group: the same gradients for any number of ranks.

#include <gmock/gmock.h>

#include "trireme/layers.h"
#include "trireme/task.h"

#include "models/gpt.h"
#include "models/lane_seed.h"
#include "models/lenet.h"
#include "models/mlp.h"
#include "models/vit.h"
#include "tensor/autocast.h"
#include "tensor_parallel/gradient_squares.h"
#include "tests/support/expect_fails.h"
#include "tests/tensor_parallel/tensor_ranks.h"

namespace trireme::parallel {
namespace {

using Layers = std::shared_ptr<const LayerList>;

constexpr models::GptOptions kGpt{
    .layers = 4, .heads = 4, .width = 32, .context = 16, .vocabulary = 53, .dropout = 0.1};

template <typename Options>
Layers layers(LayerList (*make)(const Options&), const Options& options) {
  torch::manual_seed(11);
  return std::make_shared<const LayerList>(make(options));
}

/// Gradients of a step: of the language task for GPTs.
struct GptStep {
  Layers list;
  std::int64_t length = 15;
  bool whole_output = false;

  Computed operator()(TensorGroup& group) const {
    bool divided = false;
    std::map<std::string, ParameterSlice> slices;
    const LayerPlace place{.tensor = &group, .divided_output = whole_output ? nullptr : &divided, .slices = &slices};
    const Model model = whole_model(list, place);
    all_made(group);
    EXPECT_EQ(divided, !whole_output && !group.plain());
    const torch::Tensor tokens = torch::arange(3 * (length + 1)).mul(7).remainder(53).reshape({3, length + 1});
    const data::Schema schema({{.name = "tokens", .dtype = DType::kI64, .shape = {length + 1}}});
    const LaneSeed seed(5);
    const Outcome outcome = language_model().compute(model, Batch(schema, {tokens}));
    outcome.loss.backward();
    Computed computed{{{"loss", outcome.loss.detach().reshape(1)}}, {}};
    add_gradients(computed, *model.module);
    EXPECT_EQ(slices, parameter_slices(*model.module));
    return computed;
  }
};

void expect_close(const Computed& a, const Computed& b, double most) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, tensor] : a.tensors) {
    EXPECT_LT((tensor - b.tensors.at(name)).abs().max().item<double>(), most) << name;
  }
}

TEST(TensorParallelGpt, GradientsOfAStep_SameBitsForAnyNumberOfRanks) {
  const GptStep step{layers(models::gpt, kGpt)};
  const Computed whole = alone(4, step);
  EXPECT_GT(whole.tensors.at("d wte.weight").abs().max().item<double>(), 0);
  EXPECT_EQ(whole.tensors.at("d h.3.attn.c_attn.weight").sizes(), at::IntArrayRef({96, 32}));
  for (const std::uint32_t size : {2, 4}) expect_same(whole, size, 4, step);
  // Dropout included: which numbers it sets to zero does not depend on the lanes.
  const Computed plain = alone(1, step);
  expect_close(plain, whole, 1e-5);
  expect_close(plain, alone(2, step), 1e-5);
  expect_same(alone(2, step), 2, 2, step);
  EXPECT_FALSE(same_bits(plain.tensors.at("d h.0.attn.c_attn.weight"), whole.tensors.at("d h.0.attn.c_attn.weight")))
      << "the test can tell other sums";
}

TEST(TensorParallelGpt, ShortAndWholeOutputs_SameBitsForAnyNumberOfRanks) {
  for (const GptStep& step : {GptStep{layers(models::gpt, kGpt), 3}, GptStep{layers(models::gpt, kGpt), 7, true}}) {
    const Computed whole = alone(4, step);
    expect_same(whole, 2, 4, step);
    expect_close(alone(1, step), whole, 1e-5);
  }
}

TEST(TensorParallelGpt, TaskThatNeedsTheWholeOutput_GetsIt) {
  const Layers list = layers(models::gpt, kGpt);
  const Task task = make_task([](const Batch& batch) { return batch.inputs(); },
                              [](const torch::Tensor& output, const Batch&) {
                                return Outcome{.loss = output.logsumexp(-1).mean(), .metrics = {}};
                              });
  const Compute step = [&](TensorGroup& group) {
    bool divided = false;
    const Model model = whole_model(list, {.tensor = &group, .divided_output = &divided});
    all_made(group);
    EXPECT_TRUE(divided);
    const data::Schema schema({{.name = "tokens", .dtype = DType::kI64, .shape = {5}}});
    const LaneSeed seed(5);
    const Outcome outcome = task.compute(model, Batch(schema, {torch::arange(10).reshape({2, 5})}));
    outcome.loss.backward();
    Computed computed{{{"loss", outcome.loss.detach().reshape(1)}}, {}};
    add_gradients(computed, *model.module);
    return computed;
  };
  expect_same(alone(2, step), 2, 2, step);
}

TEST(TensorParallelGpt, CutIntoStages_SameBitsAsInOne) {
  const Layers list = layers(models::gpt, kGpt);
  const torch::Tensor tokens = torch::arange(2 * 10).mul(5).remainder(53).reshape({2, 10});
  const auto gradients_of = [](Computed& computed, const MadeLayers& stage, const std::string& suffix) {
    for (const auto& parameter : stage.module()->named_parameters()) {
      const std::string name = parameter.key() + (parameter.key() == "wte.weight" ? suffix : "");
      computed.tensors[name] = parameter.value().grad().clone();
      const auto slice = stage.slices().find(parameter.key());
      if (slice != stage.slices().end()) computed.slices[name] = slice->second;
    }
  };
  const Compute in_stages = [&](TensorGroup& group) {
    const MadeLayers first(list, {{0, 3}}, {.tensor = &group});
    const MadeLayers second(list, {{3, list->size()}}, {.tensor = &group});
    all_made(group);
    const LaneSeed seed(5);
    const Activations sent = first.forward({0, 3}, {{"x", tokens}});
    EXPECT_EQ(sent.at("x").size(1), group.part(10).size()) << "each rank sends its positions";
    const torch::Tensor received = sent.at("x").detach().clone().requires_grad_();
    const Activations out = second.forward({3, list->size()}, {{"x", received}});
    out.at("x").square().sum().backward();
    sent.at("x").backward(received.grad());
    Computed computed;
    gradients_of(computed, first, " of the embedding");
    gradients_of(computed, second, " of the head");
    return computed;
  };
  const Compute in_one = [&](TensorGroup& group) {
    const MadeLayers all(list, {{0, list->size()}}, {.tensor = &group});
    all_made(group);
    const LaneSeed seed(5);
    all.forward({0, list->size()}, {{"x", tokens}}).at("x").square().sum().backward();
    Computed computed;
    gradients_of(computed, all, "");
    return computed;
  };
  const Computed one = alone(4, in_one);
  Computed stages = alone(4, in_stages);
  for (const std::uint32_t size : {2, 4}) expect_same(stages, size, 4, in_stages);
  stages.tensors["wte.weight"] =
      stages.tensors.at("wte.weight of the embedding") + stages.tensors.at("wte.weight of the head");
  for (const auto& [name, gradient] : one.tensors) EXPECT_TRUE(same_bits(gradient, stages.tensors.at(name))) << name;
}

TEST(TensorParallelGpt, NoGroupOrOneLane_IsThePlainModel) {
  const Layers list = layers(models::gpt, kGpt);
  TensorGroup one(1);
  const Model with_group = whole_model(list, {.tensor = &one});
  const Model without = whole_model(list);
  const torch::Tensor tokens = torch::arange(24).reshape({2, 12});
  const auto output = [&](const Model& model) {
    const LaneSeed seed(3);
    return model.forward(tokens);
  };
  EXPECT_TRUE(same_bits(output(with_group), output(without)));
  std::vector<std::string> names;
  for (const auto& parameter : without.module->named_parameters()) names.push_back(parameter.key());
  TensorGroup four(4);
  const Model divided = whole_model(list, {.tensor = &four});
  std::vector<std::string> same;
  for (const auto& parameter : divided.module->named_parameters()) {
    same.push_back(parameter.key());
    EXPECT_TRUE(same_bits(parameter.value(), parameter_at(*without.module, parameter.key()))) << parameter.key();
  }
  EXPECT_EQ(names, same);
}

TEST(TensorParallelGpt, EvaluationAndGenerationLengths_NeedNoTraining) {
  const Layers list = layers(models::gpt, kGpt);
  const Compute evaluate = [&](TensorGroup& group) {
    const torch::NoGradGuard no_grad;
    const Model model = whole_model(list, {.tensor = &group});
    model.module->eval();
    Computed computed;
    for (const std::int64_t length : {1, 2, 5, 16}) {
      computed.tensors[std::to_string(length)] = model.forward(torch::arange(length).reshape({1, length}));
    }
    return computed;
  };
  const Computed whole = alone(4, evaluate);
  EXPECT_EQ(whole.tensors.at("1").sizes(), at::IntArrayRef({1, 1, 53}));
  expect_same(whole, 4, 4, evaluate);
  expect_close(alone(1, evaluate), whole, 1e-5);
}

TEST(TensorParallelGpt, Bf16_SameBitsForAnyNumberOfRanks) {
  const GptStep step{layers(models::gpt, kGpt)};
  const Compute in_bf16 = [&](TensorGroup& group) {
    const AutocastScope precision(Precision::kBf16, torch::kCPU);
    return step(group);
  };
  const Computed whole = alone(4, in_bf16);
  for (const std::uint32_t size : {2, 4}) expect_same(whole, size, 4, in_bf16);
  EXPECT_GT((whole.tensors.at("loss") - alone(4, step).tensors.at("loss")).abs().item<double>(), 0);
  EXPECT_NEAR(whole.tensors.at("loss").item<double>(), alone(1, in_bf16).tensors.at("loss").item<double>(), 0.02);
}

TEST(TensorParallelGpt, NormOfAllGradients_SameBitsForAnyNumberOfRanks) {
  const GptStep step{layers(models::gpt, kGpt)};
  const auto squares = [&](TensorGroup& group) {
    const Computed computed = step(group);
    ExactSum sum;
    for (const auto& [name, gradient] : computed.tensors) {
      if (!name.starts_with("d ")) continue;
      const auto slice = computed.slices.find(name);
      add_squares(group, gradient, slice == computed.slices.end() ? nullptr : &slice->second, sum);
    }
    return sum;
  };
  TensorGroup one(4);
  const ExactSum whole = squares(one);
  for (const std::uint32_t size : {2, 4}) {
    std::vector<ExactSum> sums(size);
    collective::expect_ranks(size, {}, [&](collective::Communicator& ranks) {
      torch::set_num_threads(1);
      TensorGroup group(ranks, 4);
      sums[ranks.rank()] = squares(group);
    });
    ExactSum all;
    for (const ExactSum& sum : sums) all.add(sum);
    EXPECT_EQ(all.words(), whole.words()) << all.value() << " and " << whole.value();
  }
}

TEST(TensorParallelGpt, WhatCannotBeDivided_IsRefusedWithTheNearest) {
  TensorGroup eight(8);
  EXPECT_FAILS(whole_model(std::make_shared<const LayerList>(models::lenet({1, 28, 28}, 10)), {.tensor = &eight}),
               InvalidArgument, "cannot be divided", "use tensor=1");
  EXPECT_FAILS(whole_model(layers(models::gpt, kGpt), {.tensor = &eight}), InvalidArgument,
               "8 tensor lanes do not divide 4 heads: the nearest that do are 4");
}

TEST(TensorParallelGpt, ExchangesWhatThePlanCounts) {
  const GptStep step{layers(models::gpt, kGpt)};
  TensorTraffic traffic;
  with_ranks(2, 4, [&](TensorGroup& group) {
    Computed computed = step(group);
    if (group.rank() == 0) traffic = group.traffic();
    return computed;
  });
  // The plan: each of 4 blocks sums 4 states of tokens × width, the embedding and the head one each; a sum is a scatter
  // and a gather. The gather after the embedding's backward and the first norm's belong to none of them.
  const double state = 4.0 * 3 * 15 * 32;  // bytes
  const double planned = 2 * state * (4 * 4 + 2);
  const double norms = 2 * 4.0 * 2 * 32 * 9 + 4.0 * 15 * 32;  // gradients of 9 norms; of the positions
  // Maximum, sums; lengths of 5 layers, the vocabulary; that all are made.
  const double loss = 2 * 4.0 * 3 * 15 * (1 + 2) + 16 * (5 + 1 + 1);
  EXPECT_NEAR(static_cast<double>(traffic.bytes), planned + norms + loss, 1);
}

TEST(TensorParallelVit, GradientsOfAStep_SameBitsForAnyNumberOfRanks) {
  const Layers list = layers(
      models::vit,
      models::VitOptions{
          .channels = 1, .rows = 12, .columns = 12, .patch = 4, .layers = 2, .heads = 4, .width = 16, .classes = 5});
  const Compute step = [&](TensorGroup& group) {
    const Model model = whole_model(list, {.tensor = &group});
    at::Generator generator = at::detail::createCPUGenerator(2);
    const torch::Tensor images = torch::randn({3, 1, 12, 12}, generator);
    const torch::Tensor loss = torch::cross_entropy_loss(model.forward(images), torch::tensor({0, 3, 1}));
    loss.backward();
    Computed computed{{{"loss", loss.detach().reshape(1)}}, {}};
    add_gradients(computed, *model.module);
    return computed;
  };
  const Computed whole = alone(4, step);
  for (const std::uint32_t size : {2, 4}) expect_same(whole, size, 4, step);
  expect_close(alone(1, step), whole, 1e-5);
}

TEST(TensorParallelMlp, WholeInputsAndColumnBlocks_SameBits) {
  const Layers list = layers(models::mlp, models::MlpOptions{.features = 30, .hidden = {17, 12}, .classes = 5});
  for (const bool columns : {false, true}) {
    const Compute step = [&](TensorGroup& group) {
      const Model model = whole_model(list, {.tensor = &group});
      at::Generator generator = at::detail::createCPUGenerator(2);
      torch::Tensor x = torch::randn({6, 30}, generator);
      if (columns) x = x.narrow(1, group.part(30).begin, group.part(30).size());
      const torch::Tensor y = model.forward(x);
      y.square().sum().backward();
      Computed computed{{{"y", y.detach()}}, {}};
      add_gradients(computed, *model.module);
      return computed;
    };
    const Computed whole = alone(4, step);
    for (const std::uint32_t size : {2, 4}) expect_same(whole, size, 4, step);
    expect_close(alone(1, step), whole, 1e-4);
  }
}

}  // namespace
}  // namespace trireme::parallel
