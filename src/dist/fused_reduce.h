#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "collective/compressed_reduce.h"
#include "dist/world.h"

namespace trireme::dist {

/// Tensors of one type on their way through an all_reduce: one message, in host memory.
class FusedBuffer {
 public:
  /// A tensor alone travels in its own memory if it is to be replaced (`out`) and that can be sent.
  FusedBuffer(const std::vector<torch::Tensor>& in, const std::vector<torch::Tensor>& out,
              const ReduceOptions& options);

  void start(Negotiation& negotiation, bool in_background);

  bool poll() const { return compressed_ ? compressed_->poll() : plain_.poll(); }

  /// Waits, and writes the result to `out`.
  void finish();

 private:
  void scale(std::uint32_t contributors);

  std::vector<torch::Tensor> out_;
  const ReduceOptions& options_;
  torch::Tensor flat_;  // contiguous, on the host
  std::optional<Negotiation::Outcome> outcome_;
  collective::PendingOperation plain_;                      // what travels as it is
  std::optional<collective::CompressedReduce> compressed_;  // what does not
};

/// An all_reduce of some tensors, until it is done.
class FusedReduce {
 public:
  /// `out` is where the results go; empty = new tensors. Throws InvalidArgument.
  FusedReduce(const std::vector<torch::Tensor>& in, std::vector<torch::Tensor> out, ReduceOptions options);

  void start(Negotiation& negotiation, bool in_background);

  /// Whether it is over: its result was taken, or it failed.
  bool done() const { return done_; }

  bool poll() const;

  /// Waits; the results, as often as asked. Throws what went wrong, as often as asked.
  const std::vector<torch::Tensor>& wait();

  /// The ranks are no more: forgets it, result or not.
  void give_up();

 private:
  ReduceOptions options_;
  std::vector<torch::Tensor> out_;
  std::vector<std::unique_ptr<FusedBuffer>> buffers_;  // by type, in the order of their first appearance
  bool done_ = false;
  std::exception_ptr problem_;
};

}  // namespace trireme::dist
