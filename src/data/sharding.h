#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trireme::data {

// Which part gets which samples, or which features, when they are dealt once for the whole run (synchronous training
// deals lanes instead: sampler.h). Pure functions: the same arguments give the same plan in every process, so no
// process has to send it.

/// The items first, first + stride, first + 2 stride, ...: `count` of them.
struct Shard {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint64_t stride = 1;

  /// Returns item `i` of the shard; i < count.
  std::uint64_t operator[](std::uint64_t i) const { return first + i * stride; }

  /// Returns all items, in increasing order: what Subset and Columns take.
  std::vector<std::uint64_t> items() const;

  bool operator==(const Shard&) const = default;
};

/// One shard per part. Together they hold every item exactly once.
struct ShardPlan {
  std::vector<Shard> shards;
  std::string reason;  ///< one line: the request and the resulting plan
};

/// Returns contiguous shards as close to `weights` as whole items allow: exact quotas are rounded down, the remaining
/// items go to the largest remainders, ties to the earlier part. A part of small weight may get nothing. Throws
/// InvalidArgument if a weight is negative or not finite, all are zero, there are none, or more than `count`.
ShardPlan proportional(std::uint64_t count, std::span<const double> weights);

/// Returns contiguous shards whose sizes differ by at most one, the larger ones first. Throws InvalidArgument unless 1
/// <= parts <= count.
ShardPlan row_blocks(std::uint64_t count, std::uint64_t parts);

/// Does the same for the features of a sample.
ShardPlan column_blocks(std::uint64_t columns, std::uint64_t parts);

/// Deals item i to part i mod parts: nearly equal sizes, and a file sorted by class is spread evenly.
/// Throws InvalidArgument unless 1 <= parts <= count.
ShardPlan round_robin(std::uint64_t count, std::uint64_t parts);

}  // namespace trireme::data
