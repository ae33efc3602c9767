#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/schedule/evaluate.h"

namespace trireme::plan {

// What tensors take on a rank at the moment when that is the most. Not the sum of what each kind takes at most: when
// the backward begins, its gradients are not there yet, and when it ends, the activations are gone.

/// What a micro-batch takes in a layer, in bytes.
struct LayerMemory {
  double kept = 0;          ///< from the forward until the layer's backward has ended; what the loss keeps included
  double loss = 0;          ///< of the logits in fp32: the loss's backward takes it twice more
  double passing = 0;       ///< during its backward
  double passing_more = 0;  ///< and more in a split one's I
  double again = 0;         ///< likewise, if the layer is computed again then
  double deferred = 0;      ///< from a split backward's I until its W
  double gradients = 0;     ///< of the parameters that it uses
  double largest = 0;       ///< of these: the largest tensor's
};

/// What a micro-batch takes in a stage.
struct StageMemory {
  std::vector<LayerMemory> layers;
  double output = 0;  ///< what goes to the next stage, and is kept for the backward; 0 in the last stage

  double kept() const;
  double deferred() const;
  double gradients() const;
};

/// Returns the most that a micro-batch takes during its backward, `kept` included. Gradients of parameters leave as
/// soon as they are there, but for that of a parameter which the first layer uses, too: `tied` bytes, from the last
/// layer on.
double backward_peak(const StageMemory& stage, double tied);

/// What a rank of a pipeline has of the model.
struct PipelineShare {
  std::uint32_t rank = 0;
  std::uint32_t lanes = 1;      ///< micro-batches of a step
  std::vector<double> summed;   ///< by stage of the pipeline: bytes of gradients that are summed over lanes here
  double tied = 0;              ///< of the tied parameter's gradient, which is summed here, too; 0 = elsewhere
  std::uint32_t tied_rank = 0;  ///< where the first of the two gradients of it that make one is computed
  double message = 0;           ///< seconds until it is here
};

/// What is there when a rank holds the most.
struct PeakMemory {
  double activations = 0;  ///< of all micro-batches that it holds
  double sums = 0;         ///< gradients that wait for those of other lanes
  double working = 0;      ///< what comes and goes, and gradients of the micro-batch that is computed

  double total() const { return activations + sums + working; }
};

/// Returns the peak of a rank of a pipeline that makes the actions of `evaluation`: those of the last micro-batches, if
/// it has not run all. `stages` are all stages of the pipeline.
PeakMemory pipeline_peak(const PipelineShare& share, std::span<const StageMemory> stages, const Evaluation& evaluation);

}  // namespace trireme::plan
