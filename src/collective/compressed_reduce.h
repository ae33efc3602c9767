#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codec/error_feedback.h"
#include "collective/pending_operation.h"

namespace trireme::collective {

/// The sum or mean of the ranks' floats, which are sent in encoded form.
///
/// Where encoded vectors can be added (none, fp16, bf16, randomk) they are reduced as they are; otherwise they are
/// gathered, and every rank adds them in the order of ranks, so all get the same bits. Holds the memory of the codec's
/// error feedback: use one object per vector, step after step.
class CompressedReduce {
 public:
  /// For vectors of `count` values; the operation is kSum or kAverage; `options.lanes` matter only if values are not
  /// encoded. `ranks` outlives this object. Throws InvalidArgument for a spec that codec::validate rejects.
  CompressedReduce(Communicator& ranks, const codec::Spec& spec, std::size_t count, ReduceOptions options);

  /// Sends `values`; returns at once. They must stay valid and unchanged until `finish` or the end of this object.
  /// `key` is the codec's: the same on all ranks, different in each step. A collective call. `label` is for the
  /// timeline.
  void start(std::span<float> values, std::uint64_t key, std::string label = {});

  /// Waits; `values` then hold the sum or mean. If it throws, the codec's memory is as it was before `start`.
  void finish();

  /// Returns whether `finish` would not have to wait.
  bool poll() const { return pending_.poll(); }

  double encode_seconds() const { return encode_seconds_; }  ///< spent so far

 private:
  void decode();

  Communicator& ranks_;
  codec::ErrorFeedback feedback_;
  ReduceOptions options_;
  std::vector<std::byte> mine_;  // encoded; empty if values are sent as they are
  std::vector<std::byte> all_;   // of all ranks, if they are gathered
  std::span<float> values_;
  double encode_seconds_ = 0;
  std::uint64_t key_ = 0;
  PendingOperation pending_;  // last: it works on the memory above
};

}  // namespace trireme::collective
