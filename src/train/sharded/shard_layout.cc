#include "train/sharded/shard_layout.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::size_t kShardLine = 16;  // floats: see add_squares

std::size_t whole_shard_lines(std::size_t floats) { return (floats + kShardLine - 1) / kShardLine * kShardLine; }

}  // namespace

ShardLayout::ShardLayout(std::span<const std::size_t> elements, const ShardLayoutOptions& options)
    : ranks_(options.ranks), elements_(elements.begin(), elements.end()), places_(elements.size()) {
  TRIREME_CHECK(ranks_ > 0 && (options.groups.empty() || options.groups.size() == elements.size()));
  for (std::size_t i = elements.size(); i-- > 0;) {
    const bool same_group =
        floats_.empty() || options.groups.empty() || options.groups[i] == options.groups[members_.back().back()];
    if (floats_.empty() || floats_.back() >= options.bucket_floats || !same_group) {
      floats_.push_back(0);
      members_.emplace_back();
    }
    places_[i] = {.bucket = floats_.size() - 1, .offset = floats_.back()};
    members_.back().push_back(static_cast<std::uint32_t>(i));
    floats_.back() += whole_shard_lines(elements[i]);
  }
}

std::size_t ShardLayout::most_floats() const { return floats_.empty() ? 0 : *std::ranges::max_element(floats_); }

std::size_t ShardLayout::all_floats() const { return std::reduce(floats_.begin(), floats_.end()); }

ShardLayout::Slice ShardLayout::slice(std::size_t bucket, std::uint32_t rank) const {
  const std::size_t lines = floats_[bucket] / kShardLine;
  const std::size_t first = lines * rank / ranks_ * kShardLine;
  return {first, lines * (rank + 1) / ranks_ * kShardLine - first};
}

std::vector<std::size_t> ShardLayout::counts(std::size_t bucket) const {
  std::vector<std::size_t> result;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) result.push_back(slice(bucket, rank).count);
  return result;
}

std::size_t ShardLayout::shard_floats(std::uint32_t rank) const { return in_shard(buckets(), rank); }

std::size_t ShardLayout::in_shard(std::size_t bucket, std::uint32_t rank) const {
  std::size_t at = 0;
  for (std::size_t before = 0; before < bucket; ++before) at += slice(before, rank).count;
  return at;
}

std::vector<ShardLayout::Run> ShardLayout::runs(std::uint32_t rank) const {
  std::vector<Run> result;
  std::size_t in_shard = 0;
  for (std::size_t bucket = 0; bucket < buckets(); ++bucket) {
    const Slice own = slice(bucket, rank);
    for (const std::uint32_t parameter : members_[bucket]) {
      const std::size_t begin = places_[parameter].offset;
      const std::size_t first = std::max(begin, own.first);
      const std::size_t end = std::min(begin + elements_[parameter], own.first + own.count);
      if (first >= end) continue;
      result.push_back({.parameter = parameter,
                        .first = first - begin,
                        .count = end - first,
                        .bucket = bucket,
                        .in_bucket = first,
                        .in_shard = in_shard + first - own.first});
    }
    in_shard += own.count;
  }
  return result;
}

}  // namespace trireme
