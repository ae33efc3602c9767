#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

struct ShardLayoutOptions {
  std::uint32_t ranks = 1;                 ///< that share the parameters
  std::size_t bucket_floats = 1u << 20;    ///< a bucket is full when it holds so much
  std::vector<std::uint32_t> groups = {};  ///< by parameter: a bucket holds those of one group; empty: all are of one
};

/// How parameters lie in buckets of flat memory, and which rank of a shard group owns which slice of each bucket: its
/// gradients are summed there, its optimizer state is there and nowhere else. Pure.
///
/// Parameters lie in backward order: the first bucket holds the last ones. Each begins on a line of 16 floats, and
/// slices are cut between lines, so that the exact sum of squares (base/numbers/exact_sum.h) does not depend on the
/// cuts. What is between two parameters is never looked at.
class ShardLayout {
 public:
  /// Consecutive elements of one parameter, all owned by one rank.
  struct Run {
    std::size_t parameter = 0;
    std::size_t first = 0;  ///< element of the parameter
    std::size_t count = 0;
    std::size_t bucket = 0;
    std::size_t in_bucket = 0;  ///< where it begins in the bucket
    std::size_t in_shard = 0;   ///< and in the owner's shard: its slices of all buckets, one after the other
  };

  ShardLayout() = default;

  /// `elements` of each parameter, in the order of registration.
  ShardLayout(std::span<const std::size_t> elements, const ShardLayoutOptions& options);

  std::uint32_t ranks() const { return ranks_; }
  std::size_t buckets() const { return floats_.size(); }
  std::size_t floats(std::size_t bucket) const { return floats_[bucket]; }
  std::size_t most_floats() const;  ///< of any bucket
  std::size_t all_floats() const;   ///< of all buckets

  /// The parameters of a bucket, in backward order.
  std::span<const std::uint32_t> members(std::size_t bucket) const { return members_[bucket]; }

  std::size_t bucket_of(std::size_t parameter) const { return places_[parameter].bucket; }
  std::size_t offset(std::size_t parameter) const { return places_[parameter].offset; }  ///< in its bucket

  /// The slice of a bucket that a rank owns.
  struct Slice {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  Slice slice(std::size_t bucket, std::uint32_t rank) const;
  std::vector<std::size_t> counts(std::size_t bucket) const;  ///< of all slices, by rank

  std::size_t shard_floats(std::uint32_t rank) const;
  std::size_t in_shard(std::size_t bucket, std::uint32_t rank) const;  ///< where the slice begins in the shard

  /// What a rank owns, bucket by bucket.
  std::vector<Run> runs(std::uint32_t rank) const;

 private:
  struct Place {
    std::size_t bucket = 0;
    std::size_t offset = 0;
  };

  std::uint32_t ranks_ = 1;
  std::vector<std::size_t> elements_;                // by parameter
  std::vector<Place> places_;                        // by parameter
  std::vector<std::size_t> floats_;                  // by bucket
  std::vector<std::vector<std::uint32_t>> members_;  // by bucket
};

}  // namespace trireme
