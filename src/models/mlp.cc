#include "models/mlp.h"

#include <torch/nn/modules/linear.h>

#include "models/functions.h"
#include "models/parallel_block.h"

namespace trireme::models {
namespace {

/// A layer divided by its inputs: each rank takes its part of them, or has got only its columns of the data.
LayerRun divided_fc(torch::nn::Module& root, const LayerPlace& place, const std::string& name, std::int64_t in,
                    std::int64_t out, bool last) {
  parallel::TensorGroup& group = *place.tensor;
  auto fc = register_at(root, name, parallel::RowParallelLinear(group, torch::nn::Linear(in, out), name));
  note_slices(place, name, *fc);
  return on_x([&group, fc, name, in, last](const torch::Tensor& x) mutable {
    const torch::Tensor features = x.flatten(1);
    const torch::Tensor y =
        fc->forward_features(features.size(1) == in ? take_part(group, features, 1, name) : features);
    return last ? y : torch::relu(y);
  });
}

}  // namespace

LayerList mlp(const MlpOptions& options) {
  std::vector<Layer> layers;
  std::vector<std::int64_t> widths = options.hidden;
  widths.push_back(options.classes);
  std::int64_t width = options.features;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const std::string name = "fc" + std::to_string(i + 1);
    const auto make = [name, first = i == 0, last = i + 1 == widths.size(), in = width, out = widths[i]](
                          torch::nn::Module& root, const LayerPlace& place) -> LayerRun {
      if (is_divided(place)) return divided_fc(root, place, name, in, out, last);
      const auto fc = register_at(root, name, torch::nn::Linear(in, out));
      return on_x([fc, first, last](const torch::Tensor& x) {
        const torch::Tensor y = models::linear(first ? x.flatten(1) : x, fc->weight, fc->bias);
        return last ? y : torch::relu(y);
      });
    };
    layers.push_back({.name = name, .make = make, .cost = static_cast<double>(width * widths[i]), .divisible = true});
    width = widths[i];
  }
  return LayerList(std::move(layers));
}

}  // namespace trireme::models
