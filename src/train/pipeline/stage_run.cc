#include "train/pipeline/stage_run.h"

#include <unordered_set>

#include <torch/autograd.h>
#include <torch/types.h>

#include "models/lane_seed.h"
#include "models/layer_boundary.h"
#include "tensor/autocast.h"
#include "train/pipeline/recomputed.h"

namespace trireme::parallel {

StageRun::StageRun(const MadeLayers& layers, LayerRange range, const TrainOptions& options, bool recompute)
    : layers_(layers), range_(range), options_(options), recompute_(recompute), trains_(range.size()) {
  std::unordered_set<const at::TensorImpl*> seen;
  for (const auto& item : layers.module()->named_parameters()) {
    const torch::Tensor& parameter = item.value();
    if (!parameter.requires_grad()) continue;
    for (const std::size_t user : layers.users().at(item.key())) {
      if (user < range.begin || user >= range.end) continue;
      trains_[user - range.begin] = true;
      if (seen.insert(parameter.unsafeGetTensorImpl()).second) parameters_.push_back(parameter);
    }
  }
}

HeldMicroBatch StageRun::forward(Activations inputs, std::uint64_t seed, bool split) const {
  HeldMicroBatch held;
  if (split) held.later = c10::make_intrusive<models::WeightGradients>();
  held.inputs = std::move(inputs);
  // The first stage's inputs are the samples themselves; what the others get has passed a boundary in one process too.
  held.outputs = run_layers(range_.begin == 0 ? held.inputs : models::pass_boundary(held.inputs), seed, held.later);
  return held;
}

Activations StageRun::run_layers(Activations activations, std::uint64_t seed,
                                 const models::WeightGradients::Ptr& later) const {
  const models::WeightGradients::Scope weights(later);
  const LaneSeed random(seed);
  for (std::size_t layer = range_.begin; layer < range_.end; ++layer) {
    if (!recompute_) {
      activations = layers_.forward(layer, std::move(activations));
      continue;
    }
    const auto run = [&](Activations in) { return layers_.forward(layer, std::move(in)); };
    const auto again = [this, layer, seed, later](Activations in) {
      const models::WeightGradients::Scope same_weights(later);
      const LaneSeed same_random(seed);
      const AutocastScope same_precision(options_.precision, options_.device);
      return layers_.forward(layer, std::move(in));
    };
    activations = run_recomputed(run, again, std::move(activations), trains_[layer - range_.begin]);
  }
  return activations;
}

Activations StageRun::backward(HeldMicroBatch& held, const Activations& output_gradients) const {
  torch::autograd::variable_list roots;
  torch::autograd::variable_list gradients;
  if (held.loss.defined()) {
    roots.push_back(held.loss);
    gradients.emplace_back();
  }
  for (const auto& [name, output] : held.outputs) {
    const auto gradient = output_gradients.find(name);
    if (!output.requires_grad() || gradient == output_gradients.end()) continue;
    roots.push_back(output);
    gradients.push_back(gradient->second);
  }
  if (held.later) held.later->defer(true);
  if (!roots.empty()) torch::autograd::backward(roots, gradients);
  if (held.later) held.later->defer(false);
  roots.clear();
  held.loss = torch::Tensor();
  held.outputs.clear();
  Activations of_inputs;
  for (auto& [name, input] : held.inputs) {
    if (input.requires_grad() && input.grad().defined()) of_inputs.emplace(name, input.grad());
  }
  held.inputs.clear();
  for (const torch::Tensor& parameter : parameters_) {
    torch::Tensor& gradient = const_cast<torch::Tensor&>(parameter).mutable_grad();
    if (gradient.defined()) held.gradients[parameter.unsafeGetTensorImpl()] = std::exchange(gradient, torch::Tensor());
  }
  return of_inputs;
}

void StageRun::backward_weight(HeldMicroBatch& held) {
  const torch::NoGradGuard no_grad;
  held.later->run([&](const torch::Tensor& parameter, const torch::Tensor& gradient) {
    torch::Tensor& sum = held.gradients[parameter.unsafeGetTensorImpl()];
    sum = sum.defined() ? sum + gradient : gradient;
  });
}

}  // namespace trireme::parallel
