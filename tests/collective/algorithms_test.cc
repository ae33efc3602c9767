// Each way to make an all_reduce by itself, and the choice between them.
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "collective/choice.h"
#include "tests/collective/reference.h"
#include "tests/collective/testing.h"
#include "tests/support/expect_fails.h"

namespace trireme::collective {
namespace {

std::vector<Algorithm> algorithms_for(std::uint32_t ranks, std::size_t bytes) {
  std::vector<Algorithm> result = {Algorithm::kDirect, Algorithm::kTree, Algorithm::kRing};
  if (std::has_single_bit(ranks)) result.push_back(Algorithm::kHalvingDoubling);
  if (bytes <= kOneShotBytes) result.push_back(Algorithm::kOneShot);
  return result;
}

struct AlgorithmsTest : ::testing::TestWithParam<TransportCase> {
  void on_ranks(const std::function<void(Communicator& ranks)>& body) {
    for (const std::uint32_t size : {2u, 3u, 4u, 5u, 7u}) {
      expect_ranks(size, {.transport = GetParam().transport}, body);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Over, AlgorithmsTest, ::testing::Values(kShm, kTcp),
                         [](const auto& test) { return test.param.name; });

// Integers wrap, so the order does not matter: exact for all.
TEST_P(AlgorithmsTest, IntegersAreExact) {
  on_ranks([](Communicator& ranks) {
    for (const DType dtype : {DType::kI8, DType::kI32, DType::kI64}) {
      for (const std::size_t count :
           {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{1013}, std::size_t{100'003}}) {
        for (const ReduceOp op : all_ops()) {
          const auto expected = slow_reduction(dtype, op, count, ranks.size());
          for (const Algorithm algorithm : algorithms_for(ranks.size(), count * size_of(dtype))) {
            const auto input = test_input(dtype, count, ranks.rank());
            std::vector<std::byte> out(input.size() + 1);  // one off any alignment
            ranks.run(all_reduce(ConstArray(dtype, input.data(), count), Array(dtype, out.data() + 1, count),
                                 {.op = op, .algorithm = algorithm}));
            EXPECT_EQ(difference(dtype, expected, Bytes(out).subspan(1)), "")
                << name_of(algorithm) << " " << name_of(op) << " of " << count << " " << name_of(dtype) << " on "
                << ranks.size();
          }
        }
      }
    }
  });
}

TEST_P(AlgorithmsTest, FloatsAreExactButForTheRing) {
  on_ranks([](Communicator& ranks) {
    constexpr std::size_t kCount = 30'011;
    for (const ReduceOp op : all_ops()) {
      const auto expected = slow_reduction(DType::kF32, op, kCount, ranks.size());
      for (const Algorithm algorithm : algorithms_for(ranks.size(), kCount * sizeof(float))) {
        auto data = test_input(DType::kF32, kCount, ranks.rank());
        ranks.run(all_reduce(Array(DType::kF32, data.data(), kCount), {.op = op, .algorithm = algorithm}));
        if (algorithm != Algorithm::kRing) {
          EXPECT_EQ(difference(DType::kF32, expected, data), "") << name_of(algorithm) << " " << name_of(op);
          continue;
        }
        double worst = 0;
        for (std::size_t i = 0; i < kCount; ++i) {
          const auto right = load_le<float>(Bytes(expected).subspan(i * sizeof(float)));
          const auto got = load_le<float>(Bytes(data).subspan(i * sizeof(float)));
          const double scale = op == ReduceOp::kProduct ? std::abs(right) : 4.0 * ranks.size();
          worst = std::max(worst, std::abs(double{got} - right) / scale);
        }
        EXPECT_LT(worst, 1e-6) << name_of(op);
      }
    }
  });
}

// Trees round to 16 bits at each node: within a few steps of the type of what is rounded once.
TEST_P(AlgorithmsTest, SixteenBitFloatsAreCloseInAll) {
  on_ranks([](Communicator& ranks) {
    constexpr std::size_t kCount = 30'011;
    const auto exact = slow_reduction(DType::kBF16, ReduceOp::kAverage, kCount, ranks.size());
    for (const Algorithm algorithm : algorithms_for(ranks.size(), kCount * 2)) {
      auto data = test_input(DType::kBF16, kCount, ranks.rank());
      ranks.run(
          all_reduce(Array(DType::kBF16, data.data(), kCount), {.op = ReduceOp::kAverage, .algorithm = algorithm}));
      double worst = 0;
      for (std::size_t i = 0; i < kCount; ++i) {
        const auto value = [&](Bytes bytes) {  // the upper half of a float
          return std::bit_cast<float>(std::uint32_t{load_le<std::uint16_t>(bytes.subspan(2 * i))} << 16);
        };
        worst = std::max(worst, std::abs(double{value(exact)} - value(data)));
      }
      EXPECT_LT(worst, 0.05) << name_of(algorithm) << " on " << ranks.size();
    }
  });
}

TEST(Algorithms, HierarchicalWhereSomeShareMemory) {
  for (const std::vector<Rank>& elsewhere : {std::vector<Rank>{2}, std::vector<Rank>{0}, std::vector<Rank>{2, 3}}) {
    expect_ranks(
        4, {},
        [](Communicator& ranks) {
          for (const std::size_t count : {std::size_t{1}, std::size_t{1013}, std::size_t{200'003}}) {
            for (const ReduceOp op : all_ops()) {
              const auto expected = slow_reduction(DType::kI32, op, count, ranks.size());
              auto data = test_input(DType::kI32, count, ranks.rank());
              ranks.run(all_reduce(Array(DType::kI32, data.data(), count),
                                   {.op = op, .algorithm = Algorithm::kHierarchical, .any_order = true}));
              EXPECT_EQ(difference(DType::kI32, expected, data), "") << name_of(op) << " of " << count;
            }
          }
        },
        elsewhere);
  }
}

struct ChoiceCase {
  std::string name;
  std::uint32_t ranks;
  std::vector<std::vector<Rank>> hosts;
  std::size_t bytes;
  bool shared;
  bool any_order;
  Algorithm chosen;
  std::string because;
};

std::vector<std::vector<Rank>> each_alone(std::uint32_t ranks) {
  std::vector<std::vector<Rank>> hosts;
  for (Rank rank = 0; rank < ranks; ++rank) hosts.push_back({rank});
  return hosts;
}

std::vector<LaneRange> one_lane_each(std::uint32_t ranks) { return deal_lanes(ranks, ranks); }

TEST(Choice, FollowsSizeRanksAndTopology) {
  const std::vector<ChoiceCase> cases = {
      {"tiny on one host", 4, {{0, 1, 2, 3}}, 8, false, false, Algorithm::kOneShot, "one round"},
      {"tiny and shared", 4, {{0, 1, 2, 3}}, 8, true, false, Algorithm::kOneShot, "one round"},
      {"large on one host", 4, {{0, 1, 2, 3}}, kMiB, false, false, Algorithm::kDirect, "private memory"},
      {"large and shared", 4, {{0, 1, 2, 3}}, kMiB, true, false, Algorithm::kInPlace, "no copy"},
      {"tiny on the network", 4, each_alone(4), 8, false, false, Algorithm::kOneShot, "few ranks"},
      {"large on the network", 4, each_alone(4), kMiB, false, false, Algorithm::kDirect, "lane order"},
      {"small, many ranks", 16, each_alone(16), 8, false, false, Algorithm::kTree, "many ranks"},
      {"large, many ranks", 16, each_alone(16), 8 * kMiB, false, false, Algorithm::kDirect, "lane order"},
      {"any order, many ranks", 16, each_alone(16), 8 * kMiB, false, true, Algorithm::kRing, "any order"},
      {"any order, few ranks", 4, each_alone(4), 8 * kMiB, false, true, Algorithm::kDirect, "network"},
      {"two hosts", 4, {{0, 1}, {2, 3}}, kMiB, false, false, Algorithm::kHierarchical, "several hosts"},
      {"hosts out of order", 4, {{0, 2}, {1, 3}}, kMiB, false, false, Algorithm::kDirect, "no subtrees"},
      {"out of order, any order", 4, {{0, 2}, {1, 3}}, kMiB, false, true, Algorithm::kHierarchical, "several hosts"},
      {"hosts across a node", 4, {{0}, {1, 2}, {3}}, kMiB, false, false, Algorithm::kDirect, "no subtrees"},
  };
  for (const ChoiceCase& test : cases) {
    const Topology topology{.ranks = test.ranks, .hosts = test.hosts};
    const ReduceOptions options{.any_order = test.any_order};
    const Choice choice = choose_all_reduce(topology, options, one_lane_each(test.ranks), test.bytes, test.shared);
    EXPECT_EQ(name_of(choice.algorithm), name_of(test.chosen)) << test.name;
    EXPECT_THAT(std::string(choice.reason), ::testing::HasSubstr(test.because)) << test.name;
  }
}

TEST(Choice, TreeRequiresRanksThatFormSubtreesOfLanes) {
  const Topology topology{.ranks = 12, .hosts = each_alone(12)};
  const auto choice = [&](const std::vector<LaneRange>& lanes) {
    return choose_all_reduce(topology, {}, lanes, 8, false).algorithm;
  };
  EXPECT_EQ(choice(deal_lanes(12, 12)), Algorithm::kTree);
  EXPECT_EQ(choice(deal_lanes(16, 12)), Algorithm::kDirect);
}

TEST(Choice, RequestedAlgorithmIsUsedOrRefused) {
  const Topology one{.ranks = 3, .hosts = {{0, 1, 2}}};
  const Topology two{.ranks = 4, .hosts = {{0, 2}, {1, 3}}};
  const auto ask = [](const Topology& topology, Algorithm algorithm, std::size_t bytes, bool shared) {
    return choose_all_reduce(topology, {.algorithm = algorithm}, one_lane_each(topology.ranks), bytes, shared);
  };
  EXPECT_EQ(ask(one, Algorithm::kRing, 8, false).algorithm, Algorithm::kRing);
  EXPECT_EQ(ask(one, Algorithm::kRing, 8, false).reason, "asked for");
  EXPECT_EQ(ask(one, Algorithm::kInPlace, 8, true).algorithm, Algorithm::kInPlace);
  EXPECT_FAILS(ask(one, Algorithm::kInPlace, 8, false), InvalidArgument, "in-place", "memory they share");
  EXPECT_FAILS(ask(one, Algorithm::kOneShot, kOneShotBytes + 1, false), InvalidArgument, "one-shot", "more than");
  EXPECT_FAILS(ask(one, Algorithm::kHalvingDoubling, 8, false), InvalidArgument, "3 ranks", "power of two");
  EXPECT_FAILS(ask(two, Algorithm::kOneShot, 8, false), InvalidArgument, "some ranks share memory");
  EXPECT_FAILS(ask(two, Algorithm::kHierarchical, 8, false), InvalidArgument, "not a subtree", "any order");
}

TEST(Choice, HostsAreSubtreesIfTheirLanesAre) {
  const auto are = [](std::vector<std::vector<Rank>> hosts, const std::vector<LaneRange>& lanes) {
    return hosts_are_subtrees({.ranks = static_cast<std::uint32_t>(lanes.size()), .hosts = std::move(hosts)}, lanes);
  };
  EXPECT_TRUE(are({{0, 1}, {2, 3}}, deal_lanes(4, 4)));
  EXPECT_TRUE(are({{0, 1}, {2, 3}}, deal_lanes(8, 4)));
  EXPECT_TRUE(are({{0, 1, 2, 3}, {4, 5, 6}}, deal_lanes(7, 7)));
  EXPECT_FALSE(are({{0, 1, 2}, {3, 4, 5}}, deal_lanes(6, 6)));
  EXPECT_FALSE(are({{0, 2}, {1, 3}}, deal_lanes(4, 4)));
}

TEST(Algorithm, NamesRoundTrip) {
  for (const Algorithm algorithm :
       {Algorithm::kAuto, Algorithm::kOneShot, Algorithm::kDirect, Algorithm::kInPlace, Algorithm::kTree,
        Algorithm::kHalvingDoubling, Algorithm::kRing, Algorithm::kHierarchical}) {
    EXPECT_EQ(parse_algorithm(std::string(name_of(algorithm))), algorithm);
  }
  EXPECT_FAILS(parse_algorithm("rings"), InvalidArgument, "rings", "ring");
}

}  // namespace
}  // namespace trireme::collective
