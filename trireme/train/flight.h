#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "trireme/train/coded_reduce.h"
#include "trireme/train/world.h"

namespace trireme::dist {

/// Tensors of one type on their way through an all_reduce: one message, in host memory.
class Fused {
 public:
  /// A tensor alone travels in its own memory if it is to be replaced (`out`) and that can be sent.
  Fused(const std::vector<torch::Tensor>& in, const std::vector<torch::Tensor>& out, const ReduceOptions& options);

  void start(RollCall& roll_call, bool in_background);

  bool poll() const { return coded_ ? coded_->poll() : plain_.poll(); }

  /// Waits, and writes the result to `out`.
  void finish();

 private:
  void scale(std::uint32_t contributors);

  std::vector<torch::Tensor> out_;
  const ReduceOptions& options_;
  torch::Tensor flat_;  // contiguous, on the host
  std::optional<RollCall::Round> round_;
  Pending plain_;                     // what travels as it is
  std::optional<CodedReduce> coded_;  // what does not
};

/// An all_reduce of some tensors, until it has landed.
class Handle::Flight {
 public:
  /// `out` is where the results go; empty = new tensors. Throws InvalidArgument.
  Flight(const std::vector<torch::Tensor>& in, std::vector<torch::Tensor> out, ReduceOptions options);

  void start(RollCall& roll_call, bool in_background);

  /// Whether it is over: its result was taken, or it failed.
  bool landed() const { return landed_; }

  bool poll() const;

  /// Waits; the results, as often as asked. Throws what went wrong, as often as asked.
  const std::vector<torch::Tensor>& land();

  /// The ranks are no more: forgets it, result or not.
  void give_up();

 private:
  ReduceOptions options_;
  std::vector<torch::Tensor> out_;
  std::vector<std::unique_ptr<Fused>> fused_;  // by type, in the order of their first appearance
  bool landed_ = false;
  std::exception_ptr problem_;
};

}  // namespace trireme::dist
