#include "plan/schedule/schedule.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/schedule/evaluate.h"
#include "plan/schedule/own_schedule.h"
#include "plan/schedule/schedule_check.h"
#include "plan/schedule/schedule_text.h"
#include "tests/support/expect_fails.h"

namespace trireme::plan {
namespace {

constexpr StageTimes kEqual{};

/// Every schedule of p ranks and m micro-batches, interleaved ones with 2, 3 and 4 chunks.
std::vector<ScheduleShape> shapes(std::uint32_t ranks, std::uint32_t micro_batches) {
  return {{ScheduleKind::kGpipe, ranks, micro_batches, 1},       {ScheduleKind::k1F1B, ranks, micro_batches, 1},
          {ScheduleKind::kInterleaved, ranks, micro_batches, 2}, {ScheduleKind::kInterleaved, ranks, micro_batches, 3},
          {ScheduleKind::kInterleaved, ranks, micro_batches, 4}, {ScheduleKind::kZbH1, ranks, micro_batches, 1},
          {ScheduleKind::kZbV, ranks, micro_batches, 2}};
}

std::string describe(const ScheduleShape& shape) {
  return fmt::format("{} p={} m={} v={}", name_of(shape.kind), shape.ranks, shape.micro_batches, shape.chunks);
}

double bubble_of(ScheduleKind kind, std::uint32_t ranks, std::uint32_t micro_batches, std::uint32_t chunks = 1) {
  const Schedule schedule = make_schedule({kind, ranks, micro_batches, chunks});
  return evaluate(schedule, std::span(&kEqual, 1)).bubble;
}

TEST(Schedule, AllAreSoundForTwoToSixteenRanksAndOneToSixtyFourMicroBatches) {
  for (std::uint32_t ranks = 1; ranks <= 16; ++ranks) {
    for (std::uint32_t micro_batches = 1; micro_batches <= 64; ++micro_batches) {
      for (const ScheduleShape& shape : shapes(ranks, micro_batches)) {
        SCOPED_TRACE(describe(shape));
        const Schedule schedule = make_schedule(shape);
        ASSERT_NO_THROW(check_schedule(schedule));
        ASSERT_EQ(schedule.stages(), ranks * shape.chunks);
      }
    }
  }
}

TEST(Schedule, BubbleAndPeakAreThoseOfTheFormulas) {
  for (std::uint32_t ranks = 2; ranks <= 16; ++ranks) {
    for (std::uint32_t micro_batches = 1; micro_batches <= 64; ++micro_batches) {
      for (const ScheduleShape& shape : shapes(ranks, micro_batches)) {
        SCOPED_TRACE(describe(shape));
        const Evaluation result = evaluate(make_schedule(shape), std::span(&kEqual, 1));
        const auto formula = bubble_formula(shape);
        ASSERT_NEAR(result.bubble, formula.value_or(result.bubble), 1e-12);
        ASSERT_EQ(result.peak_activations(), peak_formula(shape) * shape.chunks);
      }
    }
  }
}

TEST(Schedule, TheFormulasAreThoseOfTheLiterature) {
  for (const double p : {2.0, 4.0, 16.0}) {
    for (const double m : {16.0, 32.0, 64.0}) {
      const auto ranks = static_cast<std::uint32_t>(p);
      const auto micro_batches = static_cast<std::uint32_t>(m);
      const double beta = (p - 1) / (m + p - 1);
      EXPECT_NEAR(bubble_of(ScheduleKind::kGpipe, ranks, micro_batches), beta, 1e-12);
      EXPECT_NEAR(bubble_of(ScheduleKind::k1F1B, ranks, micro_batches), beta, 1e-12);
      EXPECT_NEAR(bubble_of(ScheduleKind::kInterleaved, ranks, micro_batches, 4), (p - 1) / (4 * m + p - 1), 1e-12);
    }
  }
}

/// In time, not as a share: the makespan less the work is (p-1)(F+I+W) with 1F1B, a third of it with ZB-H1.
TEST(Schedule, ZbH1HasAThirdOfTheBubbleOf1F1BAtItsMemory) {
  for (const std::uint32_t ranks : {2u, 3u, 8u, 16u}) {
    for (const std::uint32_t micro_batches : {16u, 33u, 64u}) {
      const Evaluation plain =
          evaluate(make_schedule({ScheduleKind::k1F1B, ranks, micro_batches}), std::span(&kEqual, 1));
      const Evaluation zero =
          evaluate(make_schedule({ScheduleKind::kZbH1, ranks, micro_batches}), std::span(&kEqual, 1));
      EXPECT_DOUBLE_EQ((zero.makespan - 3.0 * micro_batches) * 3, plain.makespan - 3.0 * micro_batches);
      EXPECT_EQ(zero.peak_activations(), plain.peak_activations());
    }
  }
}

TEST(Schedule, ZbVLeavesNoRankIdleBetweenItsFirstAndItsLastAction) {
  for (std::uint32_t ranks = 1; ranks <= 16; ++ranks) {
    for (std::uint32_t micro_batches = 2 * ranks - 1; micro_batches <= 64; ++micro_batches) {
      const Evaluation result =
          evaluate(make_schedule({ScheduleKind::kZbV, ranks, micro_batches, 2}), std::span(&kEqual, 1));
      for (const RankUse& rank : result.ranks) ASSERT_EQ(rank.idle_inside(), 0) << ranks << " " << micro_batches;
    }
  }
}

TEST(Schedule, OneMicroBatchTakesItsWayThroughAllStagesAndBack) {
  for (const std::uint32_t ranks : {2u, 5u, 16u}) {
    for (const ScheduleShape& shape : shapes(ranks, 1)) {
      const Evaluation result = evaluate(make_schedule(shape), std::span(&kEqual, 1));
      const double stages = ranks * shape.chunks;
      const double longest = splits_backward(shape.kind) ? 2 * stages + 1 : 3 * stages;
      EXPECT_DOUBLE_EQ(result.makespan, longest) << describe(shape);
    }
  }
}

TEST(Schedule, WithFewerMicroBatchesThanRanksSplitBackwardsAreNoWorseThan1F1B) {
  for (std::uint32_t ranks = 2; ranks <= 16; ++ranks) {
    for (std::uint32_t micro_batches = 1; micro_batches < ranks; ++micro_batches) {
      const double plain = bubble_of(ScheduleKind::k1F1B, ranks, micro_batches);
      EXPECT_LE(bubble_of(ScheduleKind::kZbH1, ranks, micro_batches), plain) << ranks << " " << micro_batches;
      EXPECT_LE(bubble_of(ScheduleKind::kZbV, ranks, micro_batches, 2), plain) << ranks << " " << micro_batches;
    }
  }
}

TEST(Schedule, ZbVPutsTheFirstAndTheLastStageOnOneRank) {
  const Schedule schedule = make_schedule({ScheduleKind::kZbV, 4, 8, 2});
  EXPECT_EQ(schedule.rank_of_stage, (std::vector<Rank>{0, 1, 2, 3, 3, 2, 1, 0}));
}

TEST(Schedule, SizesThatMakeNoSenseAreRefused) {
  EXPECT_FAILS(make_schedule({ScheduleKind::k1F1B, 0, 1, 1}), InvalidArgument, "at least 1");
  EXPECT_FAILS(make_schedule({ScheduleKind::k1F1B, 4, 0, 1}), InvalidArgument, "at least 1");
  EXPECT_FAILS(make_schedule({ScheduleKind::k1F1B, 4, 8, 2}), InvalidArgument, "1f1b has 1 chunk", "interleaved");
  EXPECT_FAILS(make_schedule({ScheduleKind::kZbV, 4, 8, 3}), InvalidArgument, "zb-v has 2 chunks");
  EXPECT_FAILS(make_schedule({ScheduleKind::kGpipe, 4000, 60000, 1}), InvalidArgument, "too large");
  EXPECT_FAILS(parse_schedule_kind("zbv"), InvalidArgument, "did you mean 'zb-v'?");
}

TEST(ScheduleMessages, EachCrossingHasItsSendAndItsReceive) {
  for (const ScheduleShape& shape : shapes(4, 6)) {
    SCOPED_TRACE(describe(shape));
    const Schedule schedule = make_schedule(shape);
    const Schedule whole = with_messages(schedule);
    ASSERT_NO_THROW(check_schedule(whole));
    std::map<ActionKind, std::size_t> counts;
    for (const auto& actions : whole.ranks) {
      for (const Action& action : actions) ++counts[action.kind];
    }
    std::size_t crossings = 0;
    for (std::uint32_t s = 0; s + 1 < schedule.stages(); ++s) {
      crossings += schedule.rank_of_stage[s] != schedule.rank_of_stage[s + 1] ? 1 : 0;
    }
    for (const ActionKind kind : {ActionKind::kSendForward, ActionKind::kReceiveForward, ActionKind::kSendBackward,
                                  ActionKind::kReceiveBackward}) {
      EXPECT_EQ(counts[kind], crossings * 6);
    }
    const Evaluation plain = evaluate(schedule, std::span(&kEqual, 1), 0.25);
    EXPECT_DOUBLE_EQ(evaluate(whole, std::span(&kEqual, 1), 0.25).makespan, plain.makespan);
  }
}

TEST(ScheduleText, IsReadAsItWasWritten) {
  for (const ScheduleShape& shape : shapes(3, 5)) {
    const Schedule schedule = make_schedule(shape);
    EXPECT_EQ(schedule_from_csv(to_csv(schedule), schedule.name), schedule);
    const Schedule whole = with_messages(schedule);
    EXPECT_EQ(schedule_from_csv(to_csv(whole), whole.name), whole);
  }
}

TEST(ScheduleText, OfPyTorchMayHaveIdleCellsAndComments) {
  const Schedule schedule = schedule_from_csv("# two ranks\n0F0,0F1,,,0B0,0B1\r\n\n,1F0, 1B0 ,1F1,1B1,\n", "mine");
  EXPECT_EQ(schedule.ranks.size(), 2u);
  EXPECT_EQ(schedule.micro_batches, 2u);
  EXPECT_EQ(to_csv(schedule), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
}

TEST(ScheduleText, ThatIsWrongIsRefusedWithRankAndAction) {
  const auto refused = [](const std::string& text, const std::vector<std::string>& words) {
    try {
      schedule_from_csv(text, "wrong");
      ADD_FAILURE() << text << " was read";
    } catch (const InvalidArgument& problem) {
      for (const std::string& word : words) EXPECT_THAT(problem.what(), ::testing::HasSubstr(word)) << text;
    }
  };
  refused("", {"at least a rank"});
  refused(",,,\n", {"at least a rank"});
  refused("0F0,0B0\n,,\n", {"rank 1 has no action"});
  refused("0F0,0X0\n", {"line 1 (rank 0), cell 2", "'0X0' is no action"});
  refused("0F0,0B0\n\n#\n0F-1\n", {"line 4 (rank 1), cell 1"});
  refused("0F0,0B0,(0F1;1B0)OVERLAP_F_B\n", {"cell 3", "is no action"});
  refused("0F0 0B0\n", {"is no action"});
  refused("0F0,0F99999999999\n", {"is no action"});
  refused("0F0\n", {"rank 0", "0B0 is missing", "0I0"});
  refused("0F0,0I0\n", {"rank 0", "0W0 is missing"});
  refused("0F0,0B0,0W0\n", {"rank 0", "0W0", "0B0 computes that gradient too"});
  refused("0F0,0B0,0F0\n", {"rank 0", "0F0", "twice"});
  refused("0F0,0B0,0I0\n", {"rank 0", "0I0", "twice"});
  refused("0F0,0B0\n1F0,1B0,0F0\n", {"rank 1", "0F0", "stage 0 is on rank 0"});
  refused("0F0,0B0\n2F0,2B0\n", {"stage 1 is on no rank"});
  refused("4000F60000\n", {"stage 0 is on no rank"});
  refused("0F60000,0B0\n", {"0F0 is missing"});
  refused("0B0,0F0\n", {"rank 0", "0B0 can never begin", "waits for 0F0", "its own list"});
  refused("0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n", {"rank 0", "0B0 can never begin", "waits for 1B0", "rank 1", "1F1"});
  refused("0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0\n", {"is missing"});
  refused("0F0,0SEND_F0,0B0\n", {"rank 0", "0SEND_F0", "no stage beyond"});
  refused("0F0,1F0,0SEND_F0,1B0,0B0\n", {"0SEND_F0", "same rank"});
}

TEST(OwnSchedule, IsOneLineThatSaysTheSame) {
  const Schedule schedule = make_schedule({.kind = ScheduleKind::kZbV, .ranks = 3, .micro_batches = 5, .chunks = 2});
  const std::string line = in_one_line(schedule);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_TRUE(is_own_schedule(line));
  EXPECT_EQ(own_schedule(line).ranks, schedule.ranks);
  EXPECT_EQ(own_schedule(in_one_line(with_messages(schedule))).ranks, schedule.ranks)
      << "messages follow from the rest";
  for (const ScheduleKind kind : kScheduleKinds) EXPECT_FALSE(is_own_schedule(name_of(kind)));
}

TEST(OwnSchedule, IsForItsOwnNumbers) {
  const std::string line = in_one_line(make_schedule({.kind = ScheduleKind::k1F1B, .ranks = 2, .micro_batches = 4}));
  EXPECT_TRUE(schedule_named(line, 0, 2, 4).has_value());
  EXPECT_FALSE(schedule_named(line, 0, 2, 5).has_value());
  EXPECT_FALSE(schedule_named(line, 0, 3, 4).has_value());
  EXPECT_EQ(schedule_named("zb-v", 0, 2, 4)->stages(), 4u);
}

TEST(OwnSchedule, WhatCannotBeTrainedIsRefused) {
  for (const auto& [line, why] :
       std::vector<std::pair<std::string, std::string>>{{"0F0,0B0;1F0,1I0,1W0", "split all of them"},
                                                        {"0F0,0B0,", "two ranks or more"},
                                                        {"0F0,0B0;1B0,1F0", "1B0"},
                                                        {"0F0;;", ""},
                                                        {";", ""},
                                                        {"0F0,0B0;1F0,1X0", "1X0"},
                                                        {std::string(100000, ','), ""}}) {
    EXPECT_THAT([&] { own_schedule(line); }, ::testing::ThrowsMessage<InvalidArgument>(::testing::HasSubstr(why)))
        << line.substr(0, 40);
  }
  EXPECT_THAT([] { own_schedule_from_file("/nowhere/mine.csv"); },
              ::testing::ThrowsMessage<InvalidArgument>(::testing::HasSubstr("--pipeline")));
}

}  // namespace
}  // namespace trireme::plan
