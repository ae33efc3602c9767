#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "pipeline/links.h"

namespace trireme::pipeline {

/// What the stages of a rank do. Called by one thread, in the order of the rank's list.
class StageActions : public MessageStore {
 public:
  virtual void forward(std::uint32_t stage, std::uint32_t micro_batch) = 0;
  virtual void backward(std::uint32_t stage, std::uint32_t micro_batch) = 0;  ///< both gradients
  virtual void backward_input(std::uint32_t stage, std::uint32_t micro_batch) = 0;
  virtual void backward_weight(std::uint32_t stage, std::uint32_t micro_batch) = 0;

  /// Returns what `message`, which was made here, consists of.
  virtual Outgoing outgoing(const Message& message) = 0;

  /// Whether this micro-batch has no samples: it has no actions and no messages. The same on all ranks.
  virtual bool absent(std::uint32_t /*micro_batch*/) { return false; }
};

/// What a rank did in a step.
struct RunCounts {
  std::vector<std::uint32_t> peak_activations;  ///< [stage]: the most micro-batches held at once; 0 for other ranks'
  std::uint32_t peak_of_rank = 0;               ///< the same over all its stages together
  std::chrono::nanoseconds waited{0};           ///< for messages
};

/// Walks the list of the rank that `links` belong to: a micro-batch's activations are held from the begin of its
/// forward to the end of its backward, or of its weights' gradient. `schedule` is sound (`plan::check_schedule`) and
/// has its messages. Throws what the actions and the links throw.
RunCounts run_schedule(const plan::Schedule& schedule, Rank rank, Links& links, StageActions& actions);

}  // namespace trireme::pipeline
