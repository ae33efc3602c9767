#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codec/error_feedback.h"
#include "collective/pending_operation.h"

namespace trireme::collective {

/// The sum or mean of the ranks' floats, which travel in the form that a codec gives them.
///
/// Where sums of encoded forms mean something (none, fp16, bf16, randomk) they are reduced as they are; the others are
/// gathered, and every rank adds them up in the order of ranks, so all get the same bits. Has the memory of the codec's
/// error feedback: one object per vector, used step after step.
class CompressedReduce {
 public:
  /// For vectors of `count` values; the operation is kSum or kAverage; lanes count where values travel as they are.
  /// `ranks` outlives this object. Throws InvalidArgument for a spec that codec::validate refuses.
  CompressedReduce(Communicator& ranks, const codec::Spec& spec, std::size_t count, ReduceOptions options);

  /// Sends `values`; returns at once. They stay where they are, untouched by the caller, until `finish` or the end of
  /// this object. `key` is the codec's: the same on all ranks, another one in each step. A collective call.
  /// `label` is for the timeline.
  void start(std::span<float> values, std::uint64_t key, std::string label = {});

  /// Waits; the values are then the sum or mean. On a failure, which it throws, the codec's memory is as it was before
  /// `start`.
  void finish();

  /// Whether `finish` would not have to wait.
  bool poll() const { return pending_.poll(); }

  double encode_seconds() const { return encode_seconds_; }  ///< spent so far

 private:
  void decode();

  Communicator& ranks_;
  codec::ErrorFeedback feedback_;
  ReduceOptions options_;
  std::vector<std::byte> mine_;  // encoded; empty where the values travel as they are
  std::vector<std::byte> all_;   // everybody's, where they are gathered
  std::span<float> values_;
  double encode_seconds_ = 0;
  std::uint64_t key_ = 0;
  PendingOperation pending_;  // last: it works on the memory above
};

}  // namespace trireme::collective
