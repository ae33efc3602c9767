#include "plan/schedule/evaluate.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/schedule/schedule_picture.h"
#include "tests/support/expect_fails.h"

namespace trireme::plan {
namespace {

TEST(Evaluate, UnevenStagesTakeAsLongAsTheSlowestAndTheWayToIt) {
  // 1F1B with stages a and b > a: the second is never idle once it has begun.
  const std::vector<StageTimes> stages = {{1, 1, 1, 1}, {3, 3, 3, 1}};
  const Evaluation result = evaluate(make_schedule({ScheduleKind::k1F1B, 2, 8}), stages);
  EXPECT_DOUBLE_EQ(result.makespan, 1 + 8 * 9 + 2);
  EXPECT_DOUBLE_EQ(result.ranks[1].idle_inside(), 0);
  EXPECT_DOUBLE_EQ(result.ranks[0].busy, 24);
  EXPECT_DOUBLE_EQ(result.bubble, 1 - (24 + 72) / (2 * 75.0));
}

TEST(Evaluate, UnevenStagesNeverBeatTheirBounds) {
  for (std::uint32_t ranks = 2; ranks <= 8; ++ranks) {
    for (const std::uint32_t micro_batches : {1u, 3u, 8u, 21u}) {
      for (const ScheduleKind kind : kScheduleKinds) {
        const Schedule schedule = make_schedule({kind, ranks, micro_batches, usual_chunks(kind)});
        std::vector<StageTimes> stages;
        double through = 0;  // the way of one micro-batch
        std::vector<double> work(ranks, 0);
        for (std::uint32_t i = 0; i < schedule.stages(); ++i) {
          stages.push_back({1 + 0.25 * (i % 3), 1.5 + 0.125 * (i % 5), 0.75 + 0.5 * (i % 2), 1});
          through += stages.back().forward + stages.back().backward_input;
          work[schedule.rank_of_stage[i]] += micro_batches * (stages.back().forward + stages.back().backward());
        }
        const Evaluation result = evaluate(schedule, stages);
        EXPECT_GE(result.makespan, through);
        for (Rank rank = 0; rank < ranks; ++rank) {
          EXPECT_NEAR(result.ranks[rank].busy, work[rank], 1e-9);
          EXPECT_GE(result.makespan, work[rank]);
        }
        EXPECT_GE(result.bubble, 0);
        EXPECT_LT(result.bubble, 1);
      }
    }
  }
}

TEST(Evaluate, MessagesDelayWhatCrossesRanks) {
  const StageTimes equal;
  const Schedule schedule = make_schedule({ScheduleKind::k1F1B, 4, 1});
  EXPECT_DOUBLE_EQ(evaluate(schedule, std::span(&equal, 1), 0.5).makespan, 12 + 6 * 0.5);
  const Schedule v = make_schedule({ScheduleKind::kZbV, 4, 1, 2});  // the tip of the V is on one rank
  EXPECT_DOUBLE_EQ(evaluate(v, std::span(&equal, 1), 0.5).makespan, 17 + 12 * 0.5);
}

TEST(Evaluate, BytesAreHeldFromForwardToTheLastGradient) {
  const std::vector<StageTimes> stages = {{1, 1, 1, 10}, {1, 1, 1, 7}};
  const Evaluation result = evaluate(make_schedule({ScheduleKind::k1F1B, 2, 6}), stages);
  EXPECT_EQ(result.ranks[0].peak_activations, 2u);
  EXPECT_DOUBLE_EQ(result.ranks[0].peak_bytes, 20);
  EXPECT_DOUBLE_EQ(result.ranks[1].peak_bytes, 7);
}

TEST(Evaluate, OfManyMicroBatchesContinuesTheSteadyState) {
  for (const ScheduleKind kind : kScheduleKinds) {
    for (const auto& [ranks, micro_batches] : {std::pair{1u, 64u}, std::pair{3u, 21u}, std::pair{3u, 120u},
                                               std::pair{4u, 64u}, std::pair{8u, 96u}, std::pair{16u, 128u}}) {
      const ScheduleShape shape{kind, ranks, micro_batches, usual_chunks(kind)};
      std::vector<StageTimes> stages;
      for (std::uint32_t i = 0; i < ranks * shape.chunks; ++i) stages.push_back({1 + 0.5 * (i % 2), 2, 1.25, 3});
      const Evaluation run = evaluate(make_schedule(shape), stages, 0.5);
      const Evaluation continued = evaluate_long(shape, stages, 0.5);
      EXPECT_NEAR(continued.makespan, run.makespan, 0.005 * run.makespan)
          << name_of(kind) << " " << ranks << " " << micro_batches;
      EXPECT_NEAR(continued.bubble, run.bubble, 0.005);
      EXPECT_EQ(continued.peak_activations(), run.peak_activations());
      EXPECT_NEAR(continued.ranks[0].peak_bytes, run.ranks[0].peak_bytes, 1e-9);
    }
  }
}

TEST(Evaluate, RefusesTimesThatMakeNoSense) {
  const Schedule schedule = make_schedule({ScheduleKind::k1F1B, 2, 2});
  const std::vector<StageTimes> three(3);
  EXPECT_FAILS(evaluate(schedule, three), InvalidArgument, "3 stages", "schedule of 2");
  const StageTimes negative{-1, 1, 1, 1};
  EXPECT_FAILS(evaluate(schedule, std::span(&negative, 1)), InvalidArgument, "stage 0", "not negative");
  const StageTimes equal;
  EXPECT_FAILS(evaluate(schedule, std::span(&equal, 1), std::nan("")), InvalidArgument, "message");
  EXPECT_FAILS(evaluate(schedule, std::span(&equal, 1), std::numeric_limits<double>::infinity()), InvalidArgument,
               "message");
}

TEST(Picture, AsTextHasARowPerRankAndAColumnPerUnit) {
  const StageTimes equal;
  const Schedule schedule = make_schedule({ScheduleKind::k1F1B, 2, 2});
  EXPECT_EQ(text_picture(schedule, evaluate(schedule, std::span(&equal, 1))),
            "rank 0    F0 F1 .  .  B0 -- .  B1 --\n"
            "rank 1    .  F0 B0 -- F1 B1 -- .  .\n");
}

TEST(Picture, AsTextIsCutOffWhereItIsTooWide) {
  const StageTimes equal;
  const Schedule schedule = make_schedule({ScheduleKind::kZbV, 2, 30, 2});
  const std::string text = text_picture(schedule, evaluate(schedule, std::span(&equal, 1)), 20);
  EXPECT_THAT(text, ::testing::HasSubstr("the first 20 of 181 columns"));
  EXPECT_THAT(text, ::testing::HasSubstr("3F0"));
}

TEST(Picture, AsSvgHasABarForEachActionAndIsWellFormed) {
  const StageTimes equal;
  Schedule schedule = make_schedule({ScheduleKind::kZbH1, 3, 4});
  schedule.name = "mine <& yours";
  const std::string svg = svg_picture(schedule, evaluate(schedule, std::span(&equal, 1)));
  const auto count = [&](const std::string& word) {
    std::size_t times = 0;
    for (std::size_t at = svg.find(word); at != std::string::npos; at = svg.find(word, at + 1)) ++times;
    return times;
  };
  EXPECT_EQ(count("<title>"), 1 + 3u * 4 * 3);
  EXPECT_EQ(count("<title>"), count("</title>"));
  EXPECT_EQ(count("<text"), count("</text>"));
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
  EXPECT_THAT(svg, ::testing::HasSubstr("mine &lt;&amp; yours"));
  EXPECT_THAT(svg, ::testing::HasSubstr("gradient of the weights"));
}

}  // namespace
}  // namespace trireme::plan
