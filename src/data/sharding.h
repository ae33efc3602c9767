#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trireme::data {

// Who gets which samples, or which features, when they are dealt out once and for all (training in synchronous modes
// deals out lanes instead: sampler.h). Pure functions: the same arguments give the same plan on every process, so
// nobody has to send it.

/// The items first, first + stride, first + 2 stride, ...: `count` of them.
struct Shard {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint64_t stride = 1;

  /// Item `i` of the shard; i < count.
  std::uint64_t operator[](std::uint64_t i) const { return first + i * stride; }

  /// All items, in increasing order: what Subset and Columns take.
  std::vector<std::uint64_t> items() const;

  bool operator==(const Shard&) const = default;
};

/// One shard per part. Together they hold every item exactly once.
struct ShardPlan {
  std::vector<Shard> shards;
  std::string reason;  ///< one line: what was asked and what came of it
};

/// Contiguous shards as close to `weights` as whole items allow: exact quotas rounded down, the items left over to
/// the largest remainders, ties to the earlier part. A part of small weight may get nothing.
/// Throws InvalidArgument if a weight is negative or not finite, all are zero, there are none, or more than `count`.
ShardPlan proportional(std::uint64_t count, std::span<const double> weights);

/// Contiguous shards whose sizes differ by at most one, the larger ones first.
/// Throws InvalidArgument unless 1 <= parts <= count.
ShardPlan row_blocks(std::uint64_t count, std::uint64_t parts);

/// The same for the features of a sample.
ShardPlan column_blocks(std::uint64_t columns, std::uint64_t parts);

/// Item i goes to part i mod parts: near-equal sizes also for files sorted by class.
/// Throws InvalidArgument unless 1 <= parts <= count.
ShardPlan round_robin(std::uint64_t count, std::uint64_t parts);

}  // namespace trireme::data
