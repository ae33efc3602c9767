#include "codec/sparse.h"

#include <limits>
#include <numeric>
#include <set>

#include <gmock/gmock.h>

#include "codec/float_loops.h"
#include "tests/codec/testing.h"

namespace trireme::codec {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

std::vector<std::uint32_t> sent_indices(const Spec& spec, std::span<const float> values) {
  const std::vector<std::byte> bytes = encoded(spec, 0, values);
  std::vector<std::uint32_t> indices(kept_values(spec, values.size()));
  for (std::size_t i = 0; i < indices.size(); ++i) {
    indices[i] = load_le<std::uint32_t>(std::span(bytes).subspan(i * sizeof(std::uint32_t)));
  }
  return indices;
}

/// What top-k must send, by sorting.
std::vector<std::uint32_t> largest_by_sorting(std::span<const float> values, std::size_t kept) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](std::uint32_t i) { return magnitude_bits(values[i]); });
  order.resize(kept);
  std::ranges::sort(order);
  return order;
}

TEST(TopK, SendsTheLargestMagnitudes) {
  for (const double ratio : {0.001, 0.01, 0.1, 0.5, 1.0}) {
    const Spec spec{.kind = Kind::kTopK, .ratio = ratio};
    for (const std::size_t size : kSizes) {
      const std::vector<float> values = gradient_like(size, size + 1);
      EXPECT_EQ(sent_indices(spec, values), largest_by_sorting(values, kept_values(spec, size)))
          << ratio << " of " << size;
    }
  }
}

TEST(TopK, SendsTheLargestMagnitudesAmongManyEquals) {
  RandomStream random(4);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> values(1 + random.below(300));
    const std::uint64_t kinds = 1 + random.below(4);
    for (float& value : values) {  // few magnitudes, some of them neighbours in the last bit
      value = std::bit_cast<float>(0x3F800000u + static_cast<std::uint32_t>(random.below(kinds)));
      if (random.below(2) == 0) value = -value;
    }
    const Spec spec{.kind = Kind::kTopK, .ratio = 0.01 + 0.99 * random.uniform()};
    EXPECT_EQ(sent_indices(spec, values), largest_by_sorting(values, kept_values(spec, values.size())));
  }
}

TEST(TopK, TiesGoToTheLowerIndex) {
  EXPECT_THAT(sent_indices({.kind = Kind::kTopK, .ratio = 0.5}, std::vector<float>{1, -2, 2, 1, -1, 1}),
              ElementsAre(0, 1, 2));
  EXPECT_THAT(sent_indices({.kind = Kind::kTopK, .ratio = 0.02}, std::vector<float>(200)), ElementsAre(0, 1, 2, 3));
}

TEST(TopK, HandlesAnyBitPattern) {
  RandomStream random(8);
  std::vector<float> values(5000);
  for (float& value : values) value = std::bit_cast<float>(static_cast<std::uint32_t>(random.next()));
  for (const double ratio : {0.0001, 0.003, 0.02, 0.7}) {
    const Spec spec{.kind = Kind::kTopK, .ratio = ratio};
    EXPECT_EQ(sent_indices(spec, values), largest_by_sorting(values, kept_values(spec, values.size())));
  }
}

std::vector<std::size_t> drawn(std::uint64_t key, std::size_t count, std::size_t kept) {
  std::vector<float> values(count, 1.0f);
  clear_random(key, kept, values);
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < count; ++i) {
    if (values[i] == 0) indices.push_back(i);
  }
  return indices;
}

TEST(RandomK, DrawsDistinctIndicesThatDependOnTheKeyAlone) {
  for (const std::size_t count : {1u, 2u, 10u, 1000u}) {
    for (const std::size_t kept : {std::size_t{1}, (count + 1) / 2, count}) {
      for (std::uint64_t key = 0; key < 20; ++key) EXPECT_EQ(drawn(key, count, kept).size(), kept);
    }
  }
  EXPECT_EQ(drawn(5, 1000, 30), drawn(5, 1000, 30));
  EXPECT_NE(drawn(5, 1000, 30), drawn(6, 1000, 30));
}

TEST(RandomK, EveryIndexHasTheSameChance) {
  constexpr std::size_t kCount = 100;
  constexpr std::size_t kKept = 7;  // does not divide the count: the runs differ in size
  constexpr std::size_t kRounds = 20'000;
  std::vector<std::size_t> times(kCount);
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (const std::size_t index : drawn(mix_seed(1, round), kCount, kKept)) ++times[index];
  }
  const double expected = static_cast<double>(kRounds * kKept) / kCount;  // 1400, deviation 36
  for (const std::size_t count : times) EXPECT_NEAR(static_cast<double>(count), expected, 200);
}

TEST(RandomK, AllValuesAreSentInTheLongRun) {
  std::set<std::size_t> seen;
  for (std::uint64_t step = 0; step < 1500; ++step) {  // each is missed with probability 0.99^1500 = 3e-7
    for (const std::size_t index : drawn(mix_seed(3, step), 1000, 10)) seen.insert(index);
  }
  EXPECT_EQ(seen.size(), 1000);
}

TEST(RandomK, SendsTheValuesAtTheIndicesDrawn) {
  std::vector<float> values(50);
  std::iota(values.begin(), values.end(), 1.0f);
  const std::vector<float> back = round_trip({.kind = Kind::kRandomK, .ratio = 0.2}, values, 42);
  const std::vector<std::size_t> indices = drawn(42, values.size(), 10);
  std::vector<float> expected(values.size());
  for (const std::size_t index : indices) expected[index] = values[index];
  EXPECT_THAT(back, ElementsAreArray(expected));
}

}  // namespace
}  // namespace trireme::codec
