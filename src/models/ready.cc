#include "models/ready.h"

#include <string_view>

#include "base/error.h"
#include "models/gpt.h"
#include "models/lenet.h"
#include "models/lstm.h"
#include "models/mlp.h"
#include "models/resnet.h"
#include "models/vit.h"
#include "models/wide_deep.h"

namespace trireme::models {
namespace {

/// The only input of the samples.
const data::Field& only_input(std::string_view model, const data::Schema& samples) {
  const auto inputs = samples.with(data::Role::kInput);
  if (inputs.size() != 1) {
    fail<InvalidArgument>("model {} takes one input, and these samples have {}: {}", model, inputs.size(),
                          samples.describe());
  }
  return samples[inputs.front()];
}

const data::Field& only_image(std::string_view model, const data::Schema& samples) {
  const data::Field& input = only_input(model, samples);
  if (input.shape.size() != 3) {
    fail<InvalidArgument>("model {} needs images of channels x rows x columns, and field '{}' is {}", model, input.name,
                          input.describe());
  }
  return input;
}

const data::Field& only_tokens(std::string_view model, const data::Schema& samples) {
  const data::Field& input = only_input(model, samples);
  if (input.shape.size() != 1 || input.classes.size() != 1) {
    fail<InvalidArgument>("model {} needs tokens, and field '{}' is {}", model, input.name, input.describe());
  }
  return input;
}

/// Widths of layers between input and output: `layers` of `width`, where one of them is given.
std::vector<std::int64_t> hidden(const Settings& settings, std::vector<std::int64_t> otherwise) {
  if (settings.numbers.empty()) return otherwise;
  const std::int64_t layers = settings.count("layers", static_cast<std::int64_t>(otherwise.size()));
  return std::vector(static_cast<std::size_t>(layers), settings.count("width", otherwise.front()));
}

LayerList mlp_layers(const Settings& settings, const data::Schema& samples, std::int64_t outputs) {
  const data::Field& input = only_input("mlp", samples);
  return mlp(MlpOptions{.features = static_cast<std::int64_t>(input.elements()),
                        .hidden = hidden(settings, MlpOptions{}.hidden),
                        .classes = outputs});
}

LayerList lenet_layers(const Settings& /*settings*/, const data::Schema& samples, std::int64_t outputs) {
  return lenet(only_input("lenet", samples).shape, outputs);
}

MakeReadyLayers resnet_layers(const std::string& name, const ResNetOptions& shape) {
  return [=](const Settings& settings, const data::Schema& samples, std::int64_t outputs) {
    const data::Field& image = only_image(name, samples);
    ResNetOptions options = shape;
    options.width = settings.count("width", shape.width);
    options.channels = image.shape[0];
    options.large = image.shape[1] > 64;
    options.classes = outputs;
    return resnet(options);
  };
}

LayerList vit_layers(const Settings& settings, const data::Schema& samples, std::int64_t outputs) {
  const data::Field& image = only_image("vit-tiny", samples);
  const std::int64_t rows = image.shape[1];
  return vit(VitOptions{.channels = image.shape[0],
                        .rows = rows,
                        .columns = image.shape[2],
                        .patch = settings.count("patch", rows > 64 ? 16 : 4),
                        .layers = settings.count("layers", VitOptions{}.layers),
                        .heads = settings.count("heads", VitOptions{}.heads),
                        .width = settings.count("width", VitOptions{}.width),
                        .classes = outputs});
}

/// A context as long as the samples: the model sees all tokens of one but the last.
MakeReadyLayers gpt_layers(const std::string& name, const GptOptions& shape) {
  return [=](const Settings& settings, const data::Schema& samples, std::int64_t outputs) {
    const data::Field& tokens = only_tokens(name, samples);
    GptOptions options{.layers = settings.count("layers", shape.layers),
                       .heads = settings.count("heads", shape.heads),
                       .width = settings.count("width", shape.width),
                       .vocabulary = outputs,
                       .dropout = settings.number("dropout", shape.dropout)};
    if (!(options.dropout >= 0 && options.dropout < 1)) {
      fail<InvalidArgument>("'{}' with dropout={}: at least 0 and below 1", name, options.dropout);
    }
    if (!tokens.varies()) options.context = tokens.shape.front() - 1;
    return gpt(options);
  };
}

Model make_lstm(const Settings& settings, const data::Schema& samples, std::int64_t outputs) {
  only_tokens("lstm", samples);
  return Lstm(LstmOptions{.vocabulary = outputs,
                          .width = settings.count("width", LstmOptions{}.width),
                          .layers = settings.count("layers", LstmOptions{}.layers)});
}

Model make_wide_deep(const Settings& settings, const data::Schema& samples, std::int64_t outputs) {
  WideDeepOptions options{.hidden = hidden(settings, WideDeepOptions{}.hidden), .outputs = outputs};
  const auto inputs = samples.with(data::Role::kInput);
  for (const std::size_t i : inputs) {
    const data::Field& field = samples[i];
    if (field.classes.empty() && options.numbers == 0 && options.classes.empty()) {
      options.numbers = static_cast<std::int64_t>(field.elements());
    } else if (!field.classes.empty() && options.classes.empty()) {
      for (std::size_t k = 0; k < field.elements(); ++k) options.classes.push_back(field.limit(k));
    } else {
      fail<InvalidArgument>("model wide-deep takes numbers, categories, or both in this order, not: {}",
                            samples.describe());
    }
  }
  if (inputs.empty()) fail<InvalidArgument>("model wide-deep needs an input: {}", samples.describe());
  return WideDeep(options);
}

}  // namespace

const std::map<std::string, ReadyModel>& ready() {
  static const std::vector<std::string> gpt_keys{"layers", "heads", "width", "dropout"};
  static const std::vector<std::string> layers{"layers", "width"};
  static const std::vector<std::string> width{"width"};
  static const std::map<std::string, ReadyModel> all{
      {"gpt-10m", {gpt_layers("gpt-10m", {.layers = 6, .heads = 6, .width = 384}), gpt_keys}},
      {"gpt-tiny", {gpt_layers("gpt-tiny", {.layers = 2, .heads = 4, .width = 64}), gpt_keys}},
      {"gpt2", {gpt_layers("gpt2", {.layers = 12, .heads = 12, .width = 768}), gpt_keys}},
      {"gpt2-large", {gpt_layers("gpt2-large", {.layers = 36, .heads = 20, .width = 1280}), gpt_keys}},
      {"gpt2-medium", {gpt_layers("gpt2-medium", {.layers = 24, .heads = 16, .width = 1024}), gpt_keys}},
      {"gpt2-xl", {gpt_layers("gpt2-xl", {.layers = 48, .heads = 25, .width = 1600}), gpt_keys}},
      {"lenet", {lenet_layers, {}}},
      {"lstm", {nullptr, layers, make_lstm}},
      {"mlp", {mlp_layers, layers}},
      {"resnet18", {resnet_layers("resnet18", {.blocks = {2, 2, 2, 2}, .width = 64}), width}},
      {"resnet20", {resnet_layers("resnet20", {.blocks = {3, 3, 3}, .width = 16}), width}},
      {"resnet50", {resnet_layers("resnet50", {.blocks = {3, 4, 6, 3}, .width = 64, .bottleneck = true}), width}},
      {"vit-tiny", {vit_layers, {"layers", "heads", "width", "patch"}}},
      {"wide-deep", {nullptr, layers, make_wide_deep}},
  };
  return all;
}

}  // namespace trireme::models
