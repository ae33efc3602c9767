#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace trireme::plan {

enum class Precision : std::uint8_t {
  kFp32,  ///< everything in four bytes
  kBf16,  ///< weights and activations in two; gradients are summed, and the optimizer works on a copy, in fp32
};

/// "fp32" or "bf16"; the text lives forever.
std::string_view name_of(Precision precision);

/// Throws InvalidArgument with the names there are.
Precision parse_precision(std::string_view name);

/// Bytes of a weight, an activation or a message.
double element_bytes(Precision precision);

/// How a parameter is stored and updated.
struct StateOptions {
  Precision precision = Precision::kFp32;
  std::uint32_t optimizer_values = 2;  ///< fp32 numbers that the optimizer keeps for a parameter: Adam 2, momentum 1
  std::uint32_t zero = 0;              ///< ZeRO stage: 1 shards optimizer state, 2 also gradients, 3 also weights
  std::uint32_t shards = 1;            ///< ranks among which ZeRO divides
  std::uint32_t gradient_buffers = 1;  ///< see `summation_buffers`
  bool whole_gradients = false;        ///< a rank sums several micro-batches before they go to their owners
};

/// What a rank holds of the state of its parameters, in bytes.
struct StateBytes {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;

  double total() const { return weights + gradients + optimizer; }
};

/// Returns what a rank holds for `parameters`. For fp32, Adam and one buffer, per parameter on N ranks: 16 without
/// ZeRO, 8+8/N with stage 1, 4+12/N with 2, 16/N with 3 (Rajbhandari et al. 2020, https://arxiv.org/abs/1910.02054).
/// Stages 2 and 3 divide gradients only where they leave at once: where a rank sums several micro-batches it has whole
/// ones until then. What is gathered for a moment is not in it.
StateBytes state_bytes(double parameters, const StateOptions& options);

/// Returns how many buffers of gradients a rank needs to sum so many micro-batches along the summation tree
/// (base/numbers/lanes.h): as many as the tree is deep. One if any order will do.
std::uint32_t summation_buffers(std::uint32_t micro_batches, bool any_order = false);

/// Returns how many partial sums wait, besides the one that begins with the first lane, when the first `done` of
/// `lanes` lanes have been added along the summation tree.
std::uint32_t waiting_sums(std::uint32_t lanes, std::uint32_t done);

/// The buckets in which gradients are summed (train/sharded/shard_layout.h).
struct GradientBuckets {
  std::size_t count = 0;
  double places = 0;  ///< parameters that those hold which can be on their way at a time: see ShardedParameters

  /// Whether all can be on their way at a time: then each has memory of its own, and whole gradients stay.
  bool all_at_once() const;
};

/// `groups`: parameters of tensors in the order of registration; a bucket holds those of one group.
GradientBuckets gradient_buckets(const std::vector<std::vector<std::uint64_t>>& groups);

}  // namespace trireme::plan
