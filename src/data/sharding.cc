#include "data/sharding.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include <fmt/ranges.h>

#include "base/error.h"

namespace trireme::data {
namespace {

__extension__ using Wide = unsigned __int128;

void check_parts(std::uint64_t count, std::uint64_t parts, std::string_view items) {
  if (parts == 0) fail<InvalidArgument>("cannot deal {} {} to 0 parts: there must be at least one", count, items);
  if (parts > count) {
    fail<InvalidArgument>("cannot deal {} {} to {} parts: each part needs at least one, use at most {}", count, items,
                          parts, count);
  }
}

/// Returns contiguous shards of the given sizes.
std::vector<Shard> lay_out(std::span<const std::uint64_t> sizes) {
  std::vector<Shard> shards;
  shards.reserve(sizes.size());
  std::uint64_t first = 0;
  for (const std::uint64_t size : sizes) {
    shards.push_back({.first = first, .count = size});
    first += size;
  }
  return shards;
}

/// Returns `300, 200, 100`, shortened to fit in a line.
template <typename T>
std::string listed(std::span<const T> values) {
  constexpr std::size_t kMost = 8;
  return fmt::format("{}{}", fmt::join(values.first(std::min(values.size(), kMost)), ", "),
                     values.size() > kMost ? ", ..." : "");
}

/// Returns weights as whole numbers below 2^53 in the same ratio: scaled by a power of two, hence exact except for
/// weights 2^53 times smaller than the largest. Quotas computed from them carry no rounding error.
std::vector<std::uint64_t> whole_weights(std::span<const double> weights) {
  const double largest = *std::ranges::max_element(weights);
  const int exponent = std::ilogb(largest);
  std::vector<std::uint64_t> whole;
  whole.reserve(weights.size());
  for (const double weight : weights) {
    whole.push_back(static_cast<std::uint64_t>(std::ldexp(weight, 52 - exponent)));
  }
  return whole;
}

void check_weights(std::span<const double> weights) {
  for (std::size_t part = 0; part < weights.size(); ++part) {
    if (!std::isfinite(weights[part]) || weights[part] < 0) {
      fail<InvalidArgument>("part {} has weight {}: weights are finite and not negative", part, weights[part]);
    }
  }
  if (std::ranges::all_of(weights, [](double weight) { return weight == 0; })) {
    fail<InvalidArgument>("all {} weights are 0: at least one part must get something", weights.size());
  }
}

std::vector<Shard> equal_blocks(std::uint64_t count, std::uint64_t parts) {
  std::vector<std::uint64_t> sizes(parts, count / parts);
  for (std::uint64_t part = 0; part < count % parts; ++part) ++sizes[part];
  return lay_out(sizes);
}

}  // namespace

std::vector<std::uint64_t> Shard::items() const {
  std::vector<std::uint64_t> result(count);
  for (std::uint64_t i = 0; i < count; ++i) result[i] = (*this)[i];
  return result;
}

ShardPlan proportional(std::uint64_t count, std::span<const double> weights) {
  check_parts(count, weights.size(), "samples");
  check_weights(weights);
  const std::vector<std::uint64_t> whole = whole_weights(weights);
  const Wide total = std::accumulate(whole.begin(), whole.end(), Wide{0});

  std::vector<std::uint64_t> sizes(whole.size());
  std::vector<Wide> remainders(whole.size());
  std::uint64_t left = count;
  for (std::size_t part = 0; part < whole.size(); ++part) {
    const Wide share = Wide{count} * whole[part];  // below 2^64 * 2^53
    sizes[part] = static_cast<std::uint64_t>(share / total);
    remainders[part] = share % total;
    left -= sizes[part];
  }
  std::vector<std::size_t> by_remainder(whole.size());
  std::iota(by_remainder.begin(), by_remainder.end(), std::size_t{0});
  std::ranges::stable_sort(by_remainder, [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
  for (std::uint64_t i = 0; i < left; ++i) ++sizes[by_remainder[i]];  // left < parts, as remainders sum to left * total

  return {.shards = lay_out(sizes),
          .reason = fmt::format("{} samples to {} parts in proportion to {}: {}", count, sizes.size(), listed(weights),
                                listed(std::span<const std::uint64_t>(sizes)))};
}

ShardPlan row_blocks(std::uint64_t count, std::uint64_t parts) {
  check_parts(count, parts, "samples");
  return {.shards = equal_blocks(count, parts),
          .reason = fmt::format("{} samples to {} parts in blocks of {} or one more", count, parts, count / parts)};
}

ShardPlan column_blocks(std::uint64_t columns, std::uint64_t parts) {
  check_parts(columns, parts, "columns");
  return {.shards = equal_blocks(columns, parts),
          .reason = fmt::format("{} columns to {} parts in blocks of {} or one more", columns, parts, columns / parts)};
}

ShardPlan round_robin(std::uint64_t count, std::uint64_t parts) {
  check_parts(count, parts, "samples");
  std::vector<Shard> shards;
  shards.reserve(parts);
  for (std::uint64_t part = 0; part < parts; ++part) {
    shards.push_back({.first = part, .count = (count - part - 1) / parts + 1, .stride = parts});
  }
  return {.shards = std::move(shards), .reason = fmt::format("{} samples to {} parts in turn", count, parts)};
}

}  // namespace trireme::data
