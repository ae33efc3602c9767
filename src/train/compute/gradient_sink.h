#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "trireme/types.h"

namespace trireme {

/// Where the gradients of a step go while backward computes them. For each parameter, in any order, its gradient is
/// written to `gradient(i)`, then `add(i)` is called. Called by the training thread, or by the one on which backward
/// runs its hooks; not thread-safe.
class GradientSink {
 public:
  virtual ~GradientSink() = default;

  /// Returns where the gradient of parameter `i`, summed over the samples of all this worker's lanes, goes: flat, in
  /// host memory, or in that of the device where the parameters are. Valid until the end of the step.
  virtual std::span<float> gradient(std::size_t i) = 0;
  virtual bool on_device() const { return false; }

  /// `gradient(i)` is complete: it may be sent now, so it belongs to the sink until the step has ended. Called exactly
  /// once per parameter and step; twice aborts. Does not wait for peers. Throws PeerLost if the view is broken,
  /// InvalidArgument if a transport can never carry it.
  virtual void add(std::size_t i) = 0;

  /// This worker makes one pass (forward and backward) less than the others may make: nothing is computed, and the
  /// others may wait until this worker has taken note of that. With TrainOptions::accumulate all lanes count as so many
  /// passes, also those that have fewer samples, or none. Before the last pass that is computed. Throws as `add`.
  virtual void skip_pass() {}

  /// How many lanes the worker with the most of them has in this step, where the others must skip the passes of what
  /// they have less; else 0.
  virtual Lane most_lanes() const { return 0; }

  /// Returns where the model's float32 buffers (batch-norm statistics), summed over this worker's lanes, go before the
  /// step ends: host memory, flat, in the order of ModelBuffers. Nullopt: they go from lane to lane as they are.
  virtual std::optional<std::span<float>> buffer_sums() { return std::nullopt; }

  /// Returns by what the losses of this step are multiplied; the gradients that the sink gets are divided by it again.
  virtual float loss_scale() const { return 1; }
};

}  // namespace trireme
