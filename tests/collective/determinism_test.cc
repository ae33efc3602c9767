// Sums have the same bits whoever arrives first, however they are made, and however many ranks share the lanes.
#include <cstring>
#include <thread>

#include "base/random.h"
#include "tests/collective/reference.h"
#include "tests/collective/testing.h"

namespace trireme::collective {
namespace {

constexpr std::size_t kSmall = 1013;
constexpr std::size_t kLarge = 100'003;

/// Spins and yields for up to half a millisecond.
void dawdle(RandomStream& random) {
  const auto until = Deadline::Clock::now() + std::chrono::microseconds(random.below(500));
  while (Deadline::Clock::now() < until) std::this_thread::yield();
}

/// Those that promise lane order.
std::vector<Algorithm> ordered_algorithms(std::uint32_t ranks, std::size_t count) {
  std::vector<Algorithm> result = {Algorithm::kAuto, Algorithm::kDirect, Algorithm::kTree, Algorithm::kHierarchical};
  if (count * sizeof(float) <= (16u << 10)) result.push_back(Algorithm::kOneShot);
  if (std::has_single_bit(ranks)) result.push_back(Algorithm::kHalvingDoubling);
  return result;
}

void expect_bits(const std::vector<std::byte>& expected, Bytes got, const Communicator& ranks, Algorithm algorithm) {
  EXPECT_EQ(difference(DType::kF32, expected, got), "")
      << name_of(algorithm) << " on " << ranks.size() << " ranks over " << ranks.transport();
}

struct DeterminismTest : ::testing::TestWithParam<TransportCase> {
  /// Runs `body` for each number of ranks.
  void on_ranks(const std::vector<std::uint32_t>& sizes, const std::function<void(Communicator& ranks)>& body) {
    for (const std::uint32_t size : sizes) expect_ranks(size, {.transport = GetParam().transport}, body);
  }
};

INSTANTIATE_TEST_SUITE_P(Over, DeterminismTest, ::testing::Values(kShm, kTcp),
                         [](const auto& test) { return test.param.name; });

TEST_P(DeterminismTest, ResultDoesNotDependOnTheOrderOfArrival) {
  on_ranks({2, 3, 4, 7}, [](Communicator& ranks) {
    RandomStream random(mix_seed(ranks.size(), ranks.rank()));
    for (const std::size_t count : {kSmall, kLarge}) {
      const auto expected = slow_reduction(DType::kF32, ReduceOp::kSum, count, ranks.size());
      for (const Algorithm algorithm : ordered_algorithms(ranks.size(), count)) {
        for (int turn = 0; turn < 5; ++turn) {
          auto data = test_input(DType::kF32, count, ranks.rank());
          dawdle(random);
          ranks.run(all_reduce(Array(DType::kF32, data.data(), count), {.algorithm = algorithm}));
          expect_bits(expected, data, ranks, algorithm);
        }
      }
    }
  });
}

TEST_P(DeterminismTest, OtherReductionsAgreeWithAllReduce) {
  on_ranks({3, 4}, [](Communicator& ranks) {
    RandomStream random(mix_seed(7, ranks.rank()));
    const std::uint32_t n = ranks.size();
    const std::size_t part = kLarge / n;
    const auto expected = slow_reduction(DType::kF32, ReduceOp::kSum, part * n, n);
    for (int turn = 0; turn < 5; ++turn) {
      const auto input = test_input(DType::kF32, part * n, ranks.rank());
      std::vector<std::byte> out(input.size());
      const ConstArray in(DType::kF32, input.data(), part * n);
      dawdle(random);
      ranks.run(reduce_scatter(in, Array(DType::kF32, out.data(), part)));
      ranks.run(all_gather(ConstArray(DType::kF32, out.data(), part), Array(DType::kF32, out.data(), part * n)));
      dawdle(random);
      const Rank root = static_cast<Rank>(turn) % n;
      std::vector<std::byte> sum(input.size());
      ranks.run(reduce(in, Array(DType::kF32, sum.data(), part * n), root));
      if (ranks.rank() == root) expect_bits(expected, sum, ranks, Algorithm::kDirect);
    }
  });
}

TEST(Determinism, InMemoryThatTheRanksShare) {
  for (const std::uint32_t size : {2u, 3u, 4u, 7u}) {
    expect_ranks(size, {.transport = net::Transport::kShm}, [](Communicator& ranks) {
      RandomStream random(mix_seed(3, ranks.rank()));
      const auto memory = ranks.allocate((kLarge + 64) * sizeof(float));
      for (const std::size_t count : {kSmall, kLarge}) {
        const auto expected = slow_reduction(DType::kF32, ReduceOp::kSum, count, ranks.size());
        for (int turn = 0; turn < 5; ++turn) {
          // Each rank's data begins elsewhere in its part, also where no float would.
          std::byte* data = memory.get() + 13 * ranks.rank() + static_cast<std::size_t>(turn);
          const auto input = test_input(DType::kF32, count, ranks.rank());
          std::memcpy(data, input.data(), input.size());
          dawdle(random);
          const Algorithm algorithm = turn % 2 == 0 ? Algorithm::kInPlace : Algorithm::kAuto;
          ranks.run(all_reduce(Array(DType::kF32, data, count), {.algorithm = algorithm}));
          expect_bits(expected, {data, count * sizeof(float)}, ranks, algorithm);
        }
      }
    });
  }
}

/// What a rank that holds these of 8 lanes brings: their sum along the tree.
std::vector<float> partial_sum(const LaneRange& lanes, std::size_t count) {
  std::vector<std::vector<std::byte>> inputs;
  std::vector<Partial> partials;
  for (Lane lane = lanes.first; lane < lanes.end(); ++lane) {
    inputs.push_back(test_input(DType::kF32, count, lane));
    partials.push_back({{lane, 1}, reinterpret_cast<const float*>(inputs.back().data())});
  }
  std::vector<float> sum(count);
  tree_sum(8, partials, 0, sum);
  return sum;
}

void check_lanes(Communicator& ranks) {
  const auto lanes = deal_lanes(8, ranks.size());
  for (const std::size_t count : {kSmall, kLarge}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) {
      const auto expected = slow_reduction(DType::kF32, op, count, 8);
      for (const Algorithm algorithm : {Algorithm::kAuto, Algorithm::kDirect}) {
        auto values = partial_sum(lanes[ranks.rank()], count);
        ranks.run(all_reduce(std::span(values), {.op = op, .lanes = lanes, .algorithm = algorithm}));
        expect_bits(expected, std::as_bytes(std::span(values)), ranks, algorithm);
      }
      const auto memory = ranks.allocate(count * sizeof(float));
      const auto values = partial_sum(lanes[ranks.rank()], count);
      std::memcpy(memory.get(), values.data(), count * sizeof(float));
      ranks.run(all_reduce(Array(DType::kF32, memory.get(), count), {.op = op, .lanes = lanes}));
      expect_bits(expected, {memory.get(), count * sizeof(float)}, ranks, Algorithm::kAuto);
    }
  }
}

TEST_P(DeterminismTest, ResultDoesNotDependOnTheNumberOfRanks) { on_ranks({1, 2, 3, 4, 5, 7, 8}, check_lanes); }

TEST(Determinism, ResultDoesNotDependOnTheHosts) {
  for (const std::vector<Rank>& elsewhere : {std::vector<Rank>{2}, std::vector<Rank>{0}, std::vector<Rank>{2, 3}}) {
    expect_ranks(4, {}, check_lanes, elsewhere);
  }
}

TEST(Determinism, TreeAndHalvingDoublingAddInLaneOrder) {
  for (const std::uint32_t size : {2u, 4u, 8u}) {
    expect_ranks(size, {.transport = net::Transport::kTcp}, [](Communicator& ranks) {
      const auto lanes = deal_lanes(8, ranks.size());
      const auto expected = slow_reduction(DType::kF32, ReduceOp::kAverage, kLarge, 8);
      for (const Algorithm algorithm : {Algorithm::kTree, Algorithm::kHalvingDoubling}) {
        auto values = partial_sum(lanes[ranks.rank()], kLarge);
        ranks.run(all_reduce(std::span(values), {.op = ReduceOp::kAverage, .lanes = lanes, .algorithm = algorithm}));
        expect_bits(expected, std::as_bytes(std::span(values)), ranks, algorithm);
      }
    });
  }
}

}  // namespace
}  // namespace trireme::collective
