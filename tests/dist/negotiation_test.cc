#include "dist/negotiation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/collective/testing.h"
#include "tests/support/expect_fails.h"

namespace trireme::dist {
namespace {

using ::testing::HasSubstr;
using Kind = OpRequest::Kind;

OpRequest reduce_of(std::uint64_t count, DType dtype = DType::kF32) {
  return {.kind = Kind::kAllReduce, .dtype = dtype, .count = count};
}

void negotiate_on(std::uint32_t size, const std::function<void(Negotiation& negotiation)>& body) {
  collective::expect_ranks(size, {}, [&](collective::Communicator& ranks) {
    Negotiation negotiation(ranks);
    body(negotiation);
  });
}

/// All ranks' sum of one float each.
float sum_over(Negotiation& negotiation, float value) {
  negotiation.ranks().run(collective::all_reduce(collective::Array(DType::kF32, &value, 1), {}));
  return value;
}

TEST(OpRequest, DescriptionNamesOperationSizeTypeAndLabel) {
  OpRequest request = reduce_of(10);
  std::string("loss").copy(request.label.data(), request.label.size() - 1);
  EXPECT_THAT(describe(request), ::testing::AllOf(HasSubstr("all_reduce"), HasSubstr("10 F32"), HasSubstr("'loss'")));
  EXPECT_EQ(describe({.kind = Kind::kBarrier}), "barrier");
  EXPECT_EQ(describe({.kind = Kind::kJoined}), "join");
  EXPECT_THAT(describe({.kind = Kind::kBroadcast, .root = 3, .count = 2, .row_bytes = 8}),
              ::testing::AllOf(HasSubstr("broadcast of 2"), HasSubstr("rows of 8 bytes"), HasSubstr("from rank 3")));
}

TEST(Disagreement, SameRequestsAgree) {
  EXPECT_EQ(disagreement(std::vector{reduce_of(10), reduce_of(10)}), "");
  EXPECT_EQ(disagreement(std::vector<OpRequest>{}), "");
}

TEST(Disagreement, IgnoresRanksThatHaveJoined) {
  const OpRequest joined{.kind = Kind::kJoined};
  EXPECT_EQ(disagreement(std::vector{joined, reduce_of(10), joined, reduce_of(10)}), "");
  EXPECT_EQ(disagreement(std::vector{joined, joined}), "");
}

TEST(Disagreement, NamesTheRanksAndWhatEachWants) {
  const std::string problem = disagreement(std::vector{reduce_of(10), reduce_of(10), reduce_of(11)});
  EXPECT_THAT(problem, HasSubstr("rank 0 wants all_reduce"));
  EXPECT_THAT(problem, HasSubstr("rank 2 wants all_reduce"));
  EXPECT_THAT(problem, HasSubstr("11 F32"));
}

TEST(Disagreement, ComparesEveryRelevantField) {
  const auto differs = [](OpRequest a, OpRequest b) { return !disagreement(std::vector{a, b}).empty(); };
  OpRequest other = reduce_of(10);
  other.op = collective::ReduceOp::kMax;
  EXPECT_TRUE(differs(reduce_of(10), other));
  EXPECT_TRUE(differs(reduce_of(10), reduce_of(10, DType::kF64)));
  EXPECT_TRUE(differs(reduce_of(10), {.kind = Kind::kBarrier}));
  other = reduce_of(10);
  other.label[0] = 'x';
  EXPECT_TRUE(differs(reduce_of(10), other));
  const OpRequest gather{.kind = Kind::kAllGather, .count = 1, .row_bytes = 4};
  OpRequest more_rows = gather;
  more_rows.count = 5;
  EXPECT_FALSE(differs(gather, more_rows));  // each rank brings as many rows as it likes
  more_rows.row_bytes = 8;
  EXPECT_TRUE(differs(gather, more_rows));
}

TEST(Negotiation, EveryRankLearnsTheRequestsOfTheOthers) {
  negotiate_on(3, [](Negotiation& negotiation) {
    auto outcome = negotiation.negotiate(
        {.kind = Kind::kAllGather, .count = 10 + negotiation.ranks().rank(), .row_bytes = 4}, "rows");
    ASSERT_EQ(outcome.all().size(), 3);
    for (std::uint64_t rank = 0; rank < 3; ++rank) EXPECT_EQ(outcome.all()[rank].count, 10 + rank);
    EXPECT_EQ(outcome.contributors(), 3);
    EXPECT_EQ(negotiation.rounds(), 1);
  });
}

TEST(Negotiation, BackgroundRoundIsReadWhenAskedFor) {
  negotiate_on(2, [](Negotiation& negotiation) {
    auto outcome = negotiation.start(reduce_of(1), "loss");
    EXPECT_EQ(outcome.contributors(), 2);
    EXPECT_EQ(outcome.all()[1].label[0], 'l');
  });
}

TEST(Negotiation, OneRankNegotiatesWithItself) {
  negotiate_on(1, [](Negotiation& negotiation) {
    EXPECT_EQ(negotiation.negotiate(reduce_of(1), "alone").contributors(), 1);
    EXPECT_EQ(negotiation.join(), 0);
  });
}

TEST(Negotiation, DisagreementIsThrownOnEveryRank) {
  negotiate_on(2, [](Negotiation& negotiation) {
    auto outcome = negotiation.negotiate(reduce_of(1 + negotiation.ranks().rank()), "loss");
    EXPECT_FAILS(outcome.contributors(), InvalidArgument, "do not agree", "rank 0", "rank 1");
  });
}

TEST(Negotiation, LongNamesAreCutNotOverrun) {
  negotiate_on(2, [](Negotiation& negotiation) {
    auto outcome = negotiation.negotiate(reduce_of(1), std::string(500, 'x'));
    EXPECT_EQ(outcome.all()[1].label.back(), '\0');
  });
}

TEST(Negotiation, RankThatJoinedContributesNothingUntilAllHaveJoined) {
  negotiate_on(3, [](Negotiation& negotiation) {
    const Rank rank = negotiation.ranks().rank();
    for (Rank step = 0; step < 2 + rank; ++step) {  // rank 2 has the most work
      auto outcome = negotiation.negotiate(reduce_of(1), "loss");
      EXPECT_EQ(outcome.contributors(), step < 2 ? 3 : step < 3 ? 2 : 1);
      EXPECT_EQ(sum_over(negotiation, 1), static_cast<float>(outcome.contributors()));
    }
    EXPECT_EQ(negotiation.join(), 2);  // who joined last
  });
}

TEST(Negotiation, JoinedRankTakesPartInEveryKindOfOperation) {
  negotiate_on(2, [](Negotiation& negotiation) {
    collective::Communicator& ranks = negotiation.ranks();
    if (ranks.rank() == 1) {
      EXPECT_EQ(negotiation.join(), 0);
      return;
    }
    for (const auto op : {collective::ReduceOp::kMin, collective::ReduceOp::kMax, collective::ReduceOp::kProduct}) {
      OpRequest request = reduce_of(1);
      request.op = op;
      negotiation.negotiate(request, "").all();
      float value = -3.5f;
      ranks.run(collective::all_reduce(collective::Array(DType::kF32, &value, 1), {.op = op}));
      EXPECT_EQ(value, -3.5f);
    }
    const std::int32_t own = 7;
    std::int32_t gathered = 0;
    negotiation.negotiate({.kind = Kind::kAllGather, .count = 1, .row_bytes = sizeof(own)}, "").all();
    ranks.run(collective::all_gather(collective::ConstArray(DType::kU8, &own, sizeof(own)),
                                     collective::Array(DType::kU8, &gathered, sizeof(gathered)), {sizeof(own), 0}));
    EXPECT_EQ(gathered, 7);
    negotiation.negotiate({.kind = Kind::kBarrier}, "").all();
    EXPECT_EQ(negotiation.join(), 0);
  });
}

TEST(Negotiation, CountsRoundsAlikeOnAllRanks) {
  negotiate_on(2, [](Negotiation& negotiation) {
    for (Rank i = 0; i < 1 + negotiation.ranks().rank(); ++i) {
      negotiation.negotiate({.kind = Kind::kBarrier}, "").all();
    }
    negotiation.join();
    EXPECT_EQ(negotiation.rounds(), 3);  // two of the busier rank, and the last one
  });
}

TEST(RowCounts, AreGatheredFromAllToAll) {
  negotiate_on(2, [](Negotiation& negotiation) {
    const std::size_t rank = negotiation.ranks().rank();
    EXPECT_THAT(gather_row_counts(negotiation.ranks(), {10 * rank, 10 * rank + 1}),
                ::testing::ElementsAre(0, 1, 10, 11));
  });
}

}  // namespace
}  // namespace trireme::dist
