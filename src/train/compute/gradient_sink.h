#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace trireme {

/// Where the gradients of a step go while backward computes them. For each parameter, in any order, its gradient is
/// written to `gradient(i)`, then `add(i)` is called. Called by the training thread, or by the one on which backward
/// runs its hooks; not thread-safe.
class GradientSink {
 public:
  virtual ~GradientSink() = default;

  /// Returns where the gradient of parameter `i`, summed over the samples of all this worker's lanes, goes: host
  /// memory, flat. Valid until the end of the step.
  virtual std::span<float> gradient(std::size_t i) = 0;

  /// `gradient(i)` is complete: it may be sent now, so it belongs to the sink until the step has ended. Called exactly
  /// once per parameter and step; twice aborts. Does not wait for peers. Throws PeerLost if the view is broken,
  /// InvalidArgument if a transport can never carry it.
  virtual void add(std::size_t i) = 0;

  /// Returns where the model's float32 buffers (batch-norm statistics), summed over this worker's lanes, go before the
  /// step ends: host memory, flat, in the order of ModelBuffers. Nullopt: they go from lane to lane as they are.
  virtual std::optional<std::span<float>> buffer_sums() { return std::nullopt; }
};

}  // namespace trireme
