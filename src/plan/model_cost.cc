#include "plan/model_cost.h"

#include <functional>
#include <map>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/suggest.h"
#include "plan/layer_builders.h"

namespace trireme::plan {
namespace {

using MakeCost = std::function<ModelCost(std::string name, const ModelInput& input)>;

MakeCost gpt_of(const TransformerShape& shape) {
  return [shape](std::string name, const ModelInput& input) { return gpt_cost(std::move(name), shape, input); };
}

MakeCost resnet_of(const ResidualShape& shape) {
  return [shape](std::string name, const ModelInput& input) { return resnet_cost(std::move(name), shape, input); };
}

/// The shapes are those of models/ready.cc.
const std::map<std::string, MakeCost, std::less<>>& makers() {
  static const std::map<std::string, MakeCost, std::less<>> all = {
      {"gpt-10m", gpt_of({6, 6, 384})},
      {"gpt-tiny", gpt_of({2, 4, 64})},
      {"gpt2", gpt_of({12, 12, 768})},
      {"gpt2-large", gpt_of({36, 20, 1280})},
      {"gpt2-medium", gpt_of({24, 16, 1024})},
      {"gpt2-xl", gpt_of({48, 25, 1600})},
      {"lenet", lenet_cost},
      {"lstm", lstm_cost},
      {"mlp", mlp_cost},
      {"resnet18", resnet_of({{2, 2, 2, 2}, 64, false, 224})},
      {"resnet20", resnet_of({{3, 3, 3}, 16, false, 32})},
      {"resnet50", resnet_of({{3, 4, 6, 3}, 64, true, 224})},
      {"vit-tiny",
       [](std::string name, const ModelInput& input) {
         return vit_cost(std::move(name), {12, 3, 192}, input);
       }},
  };
  return all;
}

constexpr std::uint64_t kMostLength = 1u << 20;
constexpr std::uint64_t kMostClasses = 1u << 24;

}  // namespace

std::uint64_t ModelCost::parameters() const {
  std::uint64_t sum = 0;
  for (const LayerCost& layer : layers) sum += layer.parameters;
  return sum;
}

double ModelCost::forward_flops() const {
  double sum = 0;
  for (const LayerCost& layer : layers) sum += layer.forward_flops;
  return sum;
}

const std::vector<std::string>& planned_models() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, make] : makers()) all.push_back(name);
    return all;
  }();
  return names;
}

ModelCost model_cost(std::string_view name, const ModelInput& input) {
  const auto maker = makers().find(name);
  if (maker == makers().end()) {
    if (name == "wide-deep") {
      fail<InvalidArgument>("the size of wide-deep follows from the columns of its table: it cannot be planned; use {}",
                            fmt::join(planned_models(), ", "));
    }
    fail<InvalidArgument>("there is no model '{}'{}: use {}", name, did_you_mean(name, planned_models()),
                          fmt::join(planned_models(), ", "));
  }
  if (input.length > kMostLength || input.classes > kMostClasses) {
    fail<InvalidArgument>("a length of {} and {} classes: at most {} and {}", input.length, input.classes, kMostLength,
                          kMostClasses);
  }
  return maker->second(maker->first, input);
}

}  // namespace trireme::plan
