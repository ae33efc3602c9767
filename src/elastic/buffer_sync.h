#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "collective/pending_operation.h"
#include "elastic/buffers.h"

namespace trireme {

/// Brings the buffers of all workers' models together after a step, as the policy says. Costs nothing if there are
/// none.
class BufferSync {
 public:
  /// `lanes` are all lanes of the job, in `reduce.lanes` by rank. A collective call.
  BufferSync(collective::Communicator& ranks, const torch::nn::Module& module, BufferPolicy policy,
             collective::ReduceOptions reduce);

  /// kAverage: where the sum over this worker's lanes goes before `start`; else nothing.
  std::optional<std::span<float>> sums();

  /// Sends what there is to send; returns at once. A collective call.
  void start();

  /// Waits for it.
  void wait();

  /// Makes what was waited for the module's buffers.
  void apply();

 private:
  collective::Communicator& ranks_;
  BufferPolicy policy_;
  collective::ReduceOptions reduce_;
  ModelBuffers buffers_;
  std::vector<torch::Tensor> broadcast_;    // by rank 0 to all others
  std::vector<std::byte> broadcast_bytes_;  // these while they travel
  std::shared_ptr<std::byte> memory_;
  std::span<float> sums_;                              // in it
  std::vector<collective::PendingOperation> pending_;  // last: they work on the memory above
};

}  // namespace trireme
