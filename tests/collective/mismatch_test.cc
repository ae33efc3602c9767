// Ranks that ask for different things all hear of it, and go on together.
#include "base/error.h"
#include "base/numbers/lanes.h"
#include "tests/collective/testing.h"
#include "tests/support/expect_fails.h"

namespace trireme::collective {
namespace {

/// Memory for any of the calls below.
struct Memory {
  std::vector<float> in = std::vector<float>(60'000, 1.0f);
  std::vector<float> out = std::vector<float>(60'000);

  ConstArray read(std::size_t count, DType dtype = DType::kF32) const { return {dtype, in.data(), count}; }
  Array write(std::size_t count, DType dtype = DType::kF32) { return {dtype, out.data(), count}; }
};

/// What one rank asks for, and all others; what of each must be in the message.
struct Disagreement {
  std::string name;
  std::function<Operation(Memory&)> one;
  std::string ones_words;
  std::function<Operation(Memory&)> others;
  std::string others_words;
};

/// On three ranks.
std::vector<Disagreement> disagreements() {
  const auto reduction = [](std::size_t count, ReduceOptions options = {}, DType dtype = DType::kF32) {
    return [=](Memory& memory) { return all_reduce(memory.read(count, dtype), memory.write(count, dtype), options); };
  };
  using M = Memory&;
  return {
      {"small sizes", reduction(10), "all_reduce sum of 10 F32", reduction(11), "all_reduce sum of 11 F32"},
      {"large sizes", reduction(50'000), "of 50000 F32", reduction(50'001), "of 50001 F32"},
      {"small and large", reduction(1), "of 1 F32", reduction(60'000), "of 60000 F32"},
      {"nothing and something", reduction(0), "of 0 F32", reduction(5), "of 5 F32"},
      {"types", reduction(10), "10 F32", reduction(10, {}, DType::kI32), "10 I32"},
      {"types of other sizes", reduction(20'000), "20000 F32", reduction(20'000, {}, DType::kF64), "20000 F64"},
      {"ways to reduce", reduction(10, {.op = ReduceOp::kMax}), "all_reduce max", reduction(10), "all_reduce sum"},
      {"algorithms", reduction(10, {.algorithm = Algorithm::kTree}), "by tree", reduction(10), "sum of 10 F32"},
      {"order", reduction(10, {.any_order = true}), "sum of 10 F32", reduction(10), "sum of 10 F32"},
      {"impossible here", reduction(10, {.algorithm = Algorithm::kHalvingDoubling}), "by halving-doubling",
       reduction(10), "sum of 10 F32"},
      {"roots", [](M m) { return broadcast(m.write(7), 2); }, "broadcast of 7 F32 with root 2",
       [](M m) { return broadcast(m.write(7), 1); }, "broadcast of 7 F32 with root 1"},
      {"roots of reduce", [](M m) { return reduce(m.read(7), m.write(7), 2); }, "reduce sum of 7 F32 to rank 2",
       [](M m) { return reduce(m.read(7), m.write(7), 0); }, "reduce sum of 7 F32 to rank 0"},
      {"kinds", [](M) { return barrier(); }, "barrier", reduction(9), "all_reduce sum of 9 F32"},
      {"large kinds", [](M m) { return all_gather(m.read(9'000), m.write(27'000)); }, "all_gather of 9000 F32",
       [](M m) { return broadcast(m.write(50'000)); }, "broadcast of 50000 F32"},
      {"sizes of all_gather", [](M m) { return all_gather(m.read(3), m.write(9)); }, "all_gather of 3 F32",
       [](M m) { return all_gather(m.read(4), m.write(12)); }, "all_gather of 4 F32"},
      {"sizes of gather", [](M m) { return gather(m.read(3), m.write(9)); }, "gather of 3 F32 with root 0",
       [](M m) { return gather(m.read(4), m.write(12)); }, "gather of 4 F32 with root 0"},
      {"sizes of scatter", [](M m) { return scatter(m.read(9), m.write(3)); }, "scatter of 9 F32",
       [](M m) { return scatter(m.read(12), m.write(4)); }, "scatter of 12 F32"},
      {"sizes of reduce_scatter", [](M m) { return reduce_scatter(m.read(9'000), m.write(3'000)); }, "of 9000 F32",
       [](M m) { return reduce_scatter(m.read(12'000), m.write(4'000)); }, "of 12000 F32"},
  };
}

/// The group is as before: the next call gives the right result.
void expect_usable(Communicator& ranks) {
  for (const std::size_t count : {std::size_t{3}, std::size_t{30'000}}) {
    std::vector<std::int32_t> data(count, static_cast<std::int32_t>(ranks.rank()) + 1);
    ranks.run(all_reduce(std::span(data)));
    const auto n = static_cast<std::int32_t>(ranks.size());
    EXPECT_EQ(data, std::vector<std::int32_t>(count, n * (n + 1) / 2));
  }
}

struct MismatchTest : ::testing::TestWithParam<TransportCase> {
  void on_three_ranks(const std::function<void(Communicator& ranks)>& body) {
    expect_ranks(3, {.transport = GetParam().transport, .deadline = 10s}, body, GetParam().elsewhere);
  }
};

INSTANTIATE_TEST_SUITE_P(Over, MismatchTest,
                         ::testing::Values(kShm, kTcp, TransportCase{net::Transport::kAuto, {1}, "shm_and_tcp"}),
                         [](const auto& test) { return test.param.name; });

TEST_P(MismatchTest, EveryRankThrowsAndNamesBothCalls) {
  on_three_ranks([](Communicator& ranks) {
    for (const Disagreement& disagreement : disagreements()) {
      for (Rank odd = 0; odd < ranks.size(); ++odd) {
        SCOPED_TRACE(disagreement.name);
        Memory memory;
        const bool is_odd = ranks.rank() == odd;
        const Operation operation = is_odd ? disagreement.one(memory) : disagreement.others(memory);
        EXPECT_FAILS(ranks.run(operation), InvalidArgument, "the ranks do not agree", fmt::format("rank {}", odd),
                     fmt::format("rank {}", ranks.rank()), disagreement.ones_words, disagreement.others_words);
        expect_usable(ranks);
      }
    }
  });
}

TEST_P(MismatchTest, UnevenCounts) {
  on_three_ranks([](Communicator& ranks) {
    Memory memory;
    const bool odd = ranks.rank() == 1;
    using Counts = std::vector<std::size_t>;
    // The middle rank expects the last two parts the other way round.
    const Counts counts = odd ? Counts{5, 20'000, 7} : Counts{5, 20'000, 8};
    EXPECT_FAILS(ranks.run(all_gather(memory.read(counts[ranks.rank()]), memory.write(odd ? 20'012 : 20'013), counts)),
                 InvalidArgument, "the ranks do not agree", "rank 1", "all_gather");
    EXPECT_FAILS(
        ranks.run(reduce_scatter(memory.read(odd ? 20'012 : 20'013), memory.write(counts[ranks.rank()]), {}, counts)),
        InvalidArgument, "the ranks do not agree", "rank 1", "reduce_scatter");
    expect_usable(ranks);
  });
}

TEST_P(MismatchTest, EmptyPartsOfAnotherType) {
  on_three_ranks([](Communicator& ranks) {
    // Ranks 0 and 1 have nothing to give, of different types: they could agree with each other, but not all with
    // rank 2.
    Memory memory;
    const bool root = ranks.rank() == 2;
    const DType dtype = ranks.rank() == 1 ? DType::kI32 : DType::kF32;
    const Operation operation =
        gather(memory.read(root ? 5 : 0, dtype), root ? memory.write(5) : Array(dtype, nullptr, 0), 2, {0, 0, 5});
    EXPECT_FAILS(ranks.run(operation), InvalidArgument, "the ranks do not agree", "I32", "F32");
    expect_usable(ranks);
  });
}

TEST_P(MismatchTest, PartsOfAllToAll) {
  on_three_ranks([](Communicator& ranks) {
    Memory memory;
    // Rank 2 takes one element from rank 0, which gives it two.
    const std::vector<std::size_t> to(3, 2);
    const std::vector<std::size_t> from = ranks.rank() == 2 ? std::vector<std::size_t>{1, 2, 2} : to;
    EXPECT_FAILS(ranks.run(all_to_all(memory.read(6), memory.write(ranks.rank() == 2 ? 5 : 6), to, from)),
                 InvalidArgument, "the ranks do not agree", "rank 0 gives 2", "rank 2", "takes 1");
    expect_usable(ranks);
  });
}

TEST_P(MismatchTest, LanesThatAreDealtDifferently) {
  on_three_ranks([](Communicator& ranks) {
    Memory memory;
    const std::vector<LaneRange> lanes = ranks.rank() == 0 ? deal_lanes(8, 3) : deal_lanes(4, 3);
    EXPECT_FAILS(ranks.run(all_reduce(memory.write(10), {.lanes = lanes})), InvalidArgument, "the ranks do not agree",
                 "rank 0");
    expect_usable(ranks);
  });
}

TEST_P(MismatchTest, SendAndRecv) {
  on_three_ranks([](Communicator& ranks) {
    if (ranks.rank() == 2) return expect_usable(ranks);
    Memory memory;
    for (const std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{50'000}}) {
      const Operation operation = ranks.rank() == 0 ? send(memory.read(count), 1) : recv(memory.write(count + 1), 0);
      EXPECT_FAILS(ranks.run(operation), InvalidArgument, "rank 0 sends", fmt::format("{} F32", count),
                   "rank 1 receives", fmt::format("{} F32", count + 1));
      const Operation typed = ranks.rank() == 0 ? send(memory.read(3), 1) : recv(memory.write(3, DType::kI32), 0);
      EXPECT_FAILS(ranks.run(typed), InvalidArgument, "rank 0 sends 3 F32", "rank 1 receives 3 I32");
    }
    // What comes behind a refused message is not touched by it.
    std::vector<float> three{1, 2, 3};
    if (ranks.rank() == 0) {
      Handle refused = ranks.start(send(memory.read(9), 1));
      ranks.run(send(ConstArray(std::span(three)), 1));
      EXPECT_THROW(refused.wait(), InvalidArgument);
    } else {
      Handle refused = ranks.start(recv(memory.write(8), 0));
      std::vector<float> got(3);
      ranks.run(recv(Array(std::span(got)), 0));
      EXPECT_THROW(refused.wait(), InvalidArgument);
      EXPECT_EQ(got, three);
    }
    expect_usable(ranks);
  });
}

TEST_P(MismatchTest, ImpossibleAlgorithmsAreRefusedOnAllRanks) {
  on_three_ranks([](Communicator& ranks) {
    Memory memory;
    const auto refused = [&](Algorithm algorithm, std::size_t count, const std::string& why) {
      EXPECT_FAILS(ranks.run(all_reduce(memory.write(count), {.algorithm = algorithm})), InvalidArgument,
                   std::string(name_of(algorithm)), "not possible here", why);
      expect_usable(ranks);
    };
    for (const std::size_t count : {std::size_t{10}, std::size_t{50'000}}) {
      refused(Algorithm::kHalvingDoubling, count, "power of two");
      refused(Algorithm::kInPlace, count, "memory they share");
    }
    refused(Algorithm::kOneShot, 50'000, "more than");
  });
}

TEST_P(MismatchTest, InvalidOperationsThrowOnEveryRank) {
  on_three_ranks([](Communicator& ranks) {
    Memory memory;
    EXPECT_FAILS(ranks.run(broadcast(memory.write(3), 3)), InvalidArgument, "no rank 3");
    EXPECT_FAILS(ranks.run(all_reduce(memory.read(3), memory.write(4))), InvalidArgument, "4", "3");
    EXPECT_FAILS(ranks.run(all_reduce(memory.read(3), memory.write(3, DType::kI32))), InvalidArgument, "F32", "I32");
    EXPECT_FAILS(ranks.run(all_reduce(memory.write(3, DType::kBool))), InvalidArgument, "truth values");
    EXPECT_FAILS(ranks.run(reduce_scatter(memory.read(10), memory.write(3))), InvalidArgument, "equal parts");
    EXPECT_FAILS(ranks.run(all_gather(memory.read(1), memory.write(3), {1, 2})), InvalidArgument, "2 counts");
    EXPECT_FAILS(ranks.run(all_gather(memory.read(1), memory.write(3), {1, 1, 2})), InvalidArgument, "add up to 4");
    EXPECT_FAILS(ranks.run(send(memory.read(1), ranks.rank())), InvalidArgument, "this rank itself");
    EXPECT_FAILS(ranks.run(all_reduce(memory.write(3), {.lanes = {{0, 1}, {1, 2}, {3, 1}}})), InvalidArgument,
                 "not the next subtree");
    EXPECT_FAILS(ranks.start(broadcast(memory.write(3), 3)), InvalidArgument, "no rank 3");
    expect_usable(ranks);
  });
}

TEST(Mismatch, AllocationsOfDifferentSizes) {
  expect_ranks(3, {.transport = net::Transport::kShm}, [](Communicator& ranks) {
    for (Rank odd = 0; odd < 3; ++odd) {
      EXPECT_FAILS(ranks.allocate(ranks.rank() == odd ? 5'000 : 50'000), InvalidArgument, "must allocate the same");
      EXPECT_NE(ranks.allocate(100), nullptr);
      expect_usable(ranks);
    }
  });
}

}  // namespace
}  // namespace trireme::collective
