#pragma once

#include <memory>
#include <vector>

#include <torch/types.h>

#include "dist/negotiation.h"
#include "tensor/device/device_sums.h"

namespace trireme::dist {

/// The float32 gradients of a step on a GPU, where the ranks of a host sum them in each other's memory (DeviceSums), at
/// the end of the step. Not thread-safe.
class DeviceGradients {
 public:
  /// Null if they have to go through the host's memory on some rank: no kernels for the device, or ranks of another
  /// host. A rank without such gradients calls it with no `parameters`. `lanes` by rank; empty = one each. A collective
  /// call.
  static std::unique_ptr<DeviceGradients> make(Negotiation& negotiation, const std::vector<torch::Tensor>& parameters,
                                               std::vector<LaneRange> lanes);

  ~DeviceGradients();
  DeviceGradients(const DeviceGradients&) = delete;
  DeviceGradients& operator=(const DeviceGradients&) = delete;

  /// Where the gradient of the i-th of them belongs, in its shape.
  const torch::Tensor& gradient(std::size_t i) const { return views_[i]; }

  /// Replaces all of them by the sum over the ranks, which is divided by how many took part if it is to be a mean.
  /// Waits for all ranks. Throws InvalidArgument if they do not agree, PeerLost, Timeout.
  void reduce(collective::ReduceOp op);

 private:
  DeviceGradients(Negotiation& negotiation, const std::vector<torch::Tensor>& parameters, torch::Device device);

  Negotiation& negotiation_;
  DeviceSums sums_;
  torch::Tensor all_;  // zero between gradients
  std::vector<torch::Tensor> views_;
};

}  // namespace trireme::dist
