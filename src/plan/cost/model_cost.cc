#include "plan/cost/model_cost.h"

#include <algorithm>
#include <functional>
#include <map>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/settings.h"
#include "base/suggest.h"
#include "plan/cost/layer_builders.h"

namespace trireme::plan {
namespace {

/// `name` is the model with its settings, as it was given.
struct Maker {
  std::function<ModelCost(std::string name, const Settings& settings, const ModelInput& input)> make;
  std::vector<std::string> settings = {};
};

TransformerShape with_settings(const Settings& settings, TransformerShape shape) {
  const auto set = [&](const char* key, std::uint64_t& value) {
    value = static_cast<std::uint64_t>(settings.count(key, static_cast<std::int64_t>(value)));
  };
  set("layers", shape.layers);
  set("heads", shape.heads);
  set("width", shape.width);
  shape.dropout = settings.number("dropout", 0) > 0;
  if (shape.width % shape.heads != 0) {
    fail<InvalidArgument>("'{}': a width of {} does not divide among {} heads", settings.name, shape.width,
                          shape.heads);
  }
  return shape;
}

Maker gpt_of(const TransformerShape& shape) {
  return {[shape](std::string name, const Settings& settings, const ModelInput& input) {
            return gpt_cost(std::move(name), with_settings(settings, shape), input);
          },
          {"layers", "heads", "width", "dropout"}};
}

Maker resnet_of(const ResidualShape& shape) {
  return {[shape](std::string name, const Settings& settings, const ModelInput& input) {
            ResidualShape own = shape;
            own.width = static_cast<std::uint64_t>(settings.count("width", static_cast<std::int64_t>(shape.width)));
            return resnet_cost(std::move(name), own, input);
          },
          {"width"}};
}

/// Widths of the layers between input and output.
std::vector<std::uint64_t> hidden(const Settings& settings, std::vector<std::uint64_t> usual) {
  if (settings.numbers.empty()) return usual;
  const std::int64_t layers = settings.count("layers", static_cast<std::int64_t>(usual.size()));
  const std::int64_t width = settings.count("width", static_cast<std::int64_t>(usual.front()));
  return std::vector(static_cast<std::size_t>(layers), static_cast<std::uint64_t>(width));
}

/// The shapes are those of models/ready.cc.
const std::map<std::string, Maker, std::less<>>& makers() {
  static const std::map<std::string, Maker, std::less<>> all = {
      {"gpt-10m", gpt_of({6, 6, 384})},
      {"gpt-tiny", gpt_of({2, 4, 64})},
      {"gpt2", gpt_of({12, 12, 768})},
      {"gpt2-large", gpt_of({36, 20, 1280})},
      {"gpt2-medium", gpt_of({24, 16, 1024})},
      {"gpt2-xl", gpt_of({48, 25, 1600})},
      {"lenet",
       {[](std::string name, const Settings&, const ModelInput& input) { return lenet_cost(std::move(name), input); }}},
      {"lstm",
       {[](std::string name, const Settings& settings, const ModelInput& input) {
          return lstm_cost(std::move(name), static_cast<std::uint64_t>(settings.count("layers", 2)),
                           static_cast<std::uint64_t>(settings.count("width", 256)), input);
        },
        {"layers", "width"}}},
      {"mlp",
       {[](std::string name, const Settings& settings, const ModelInput& input) {
          return mlp_cost(std::move(name), hidden(settings, {128, 64}), input);
        },
        {"layers", "width"}}},
      {"resnet18", resnet_of({{2, 2, 2, 2}, 64, false, 224})},
      {"resnet20", resnet_of({{3, 3, 3}, 16, false, 32})},
      {"resnet50", resnet_of({{3, 4, 6, 3}, 64, true, 224})},
      {"vit-tiny",
       {[](std::string name, const Settings& settings, const ModelInput& input) {
          return vit_cost(std::move(name), with_settings(settings, {12, 3, 192}),
                          static_cast<std::uint64_t>(settings.number("patch", 0)), input);
        },
        {"layers", "heads", "width", "patch"}}},
  };
  return all;
}

constexpr std::uint64_t kMostLength = 1u << 20;
constexpr std::uint64_t kMostClasses = 1u << 24;

}  // namespace

void LayerCost::add_tensors(std::initializer_list<std::uint64_t> sizes) {
  for (const std::uint64_t size : sizes) {
    tensors.push_back(size);
    parameters += size;
  }
}

std::uint64_t LayerCost::largest_tensor() const { return tensors.empty() ? 0 : *std::ranges::max_element(tensors); }

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

bool is_planned(std::string_view model) { return makers().contains(model.substr(0, model.find(':'))); }

ModelCost model_cost(std::string_view model, const ModelInput& input) {
  const Settings settings = Settings::parse(model);
  const std::string_view name = settings.name;
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
  settings.check_keys(maker->second.settings);
  return maker->second.make(std::string(model), settings, input);
}

}  // namespace trireme::plan
