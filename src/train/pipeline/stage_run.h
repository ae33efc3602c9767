#pragma once

#include <map>

#include "trireme/layers.h"
#include "trireme/task.h"
#include "trireme/trainer.h"

#include "models/weight_gradients.h"

namespace trireme::parallel {

/// A micro-batch in a stage, between its forward and the end of its backward.
struct HeldMicroBatch {
  Activations inputs = {};                                        ///< leaves
  Activations outputs = {};                                       ///< with their graph; empty in the last stage
  torch::Tensor loss = {};                                        ///< of the last stage, summed over samples
  models::WeightGradients::Ptr later = {};                        ///< null: the backward is not split
  std::map<const at::TensorImpl*, torch::Tensor> gradients = {};  ///< of parameters, so far
};

/// Computes one stage. Its parameters' gradients have the bits that they have in a backward pass through the whole
/// network: between two layers everything is contiguous and added up (models/layer_boundary.h), so a graph can be cut
/// there.
class StageRun {
 public:
  /// `layers` has those of `range`; both it and `options` outlive this.
  StageRun(const MadeLayers& layers, LayerRange range, const TrainOptions& options, bool recompute);

  /// The trainable parameters that its layers use, in the order of the module.
  const std::vector<torch::Tensor>& parameters() const { return parameters_; }

  /// Runs the layers on `inputs` with gradients; `seed` is the lane's. `split`: whether the backward will be. Random
  /// numbers, precision and the rest as LaneComputer has them.
  HeldMicroBatch forward(Activations inputs, std::uint64_t seed, bool split) const;

  /// Computes the gradients from the outputs' (or the loss) back to the inputs and returns those; what belongs to
  /// parameters is added to `held.gradients`, or left in `held.later` if the backward is split. Frees the graph.
  Activations backward(HeldMicroBatch& held, const Activations& output_gradients) const;

  /// Computes the gradients of weights that were left for later.
  static void backward_weight(HeldMicroBatch& held);

 private:
  Activations run_layers(Activations activations, std::uint64_t seed, const models::WeightGradients::Ptr& later) const;

  const MadeLayers& layers_;
  LayerRange range_;
  const TrainOptions& options_;
  bool recompute_;
  std::vector<torch::Tensor> parameters_;
  std::vector<bool> trains_;  // by layer of the range
};

}  // namespace trireme::parallel
