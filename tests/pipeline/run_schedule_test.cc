#include "pipeline/run_schedule.h"

#include <mutex>
#include <numeric>

#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/schedule/evaluate.h"
#include "plan/schedule/schedule_check.h"
#include "tests/collective/testing.h"
#include "tests/support/exhaustive.h"
#include "tests/support/expect_fails.h"

namespace trireme::pipeline {
namespace {

using plan::ScheduleKind;

plan::Schedule schedule_of(ScheduleKind kind, std::uint32_t ranks, std::uint32_t micro_batches) {
  return plan::with_messages(plan::make_schedule(
      {.kind = kind, .ranks = ranks, .micro_batches = micro_batches, .chunks = plan::usual_chunks(kind)}));
}

/// Stages that add one to a number: micro-batch b of n stages begins with 100 b, and ends with 100 b + n.
class CountingStages final : public StageActions {
 public:
  explicit CountingStages(std::uint32_t stages) : stages_(stages) {}

  void forward(std::uint32_t stage, std::uint32_t micro_batch) override {
    const std::int64_t in = stage == 0 ? 100 * micro_batch : numbers_.at({true, stage, micro_batch});
    if (stage + 1 < stages_) numbers_[{true, stage + 1, micro_batch}] = in + 1;
    if (stage + 1 == stages_) outputs[micro_batch] = in + 1;
  }
  void backward(std::uint32_t stage, std::uint32_t micro_batch) override { backward_input(stage, micro_batch); }
  void backward_input(std::uint32_t stage, std::uint32_t micro_batch) override {
    const std::int64_t in = stage + 1 == stages_ ? outputs.at(micro_batch) : numbers_.at({false, stage, micro_batch});
    if (stage > 0) numbers_[{false, stage - 1, micro_batch}] = in + 1000;
    if (stage == 0) gradients[micro_batch] = in + 1000;
  }
  void backward_weight(std::uint32_t, std::uint32_t) override {}

  Outgoing outgoing(const Message& message) override {
    const auto kept = std::make_shared<std::int64_t>(numbers_.at(message));
    Outgoing result{.arrays = {{DType::kI64, kept.get(), 1}}, .keep = kept};
    if (sent_kinds_.insert({message.forward, message.stage}).second) {
      auto layout = std::make_shared<Layout>();
      layout->fill(std::byte{7});
      result.layout = layout;
    }
    return result;
  }
  std::optional<std::vector<collective::Array>> memory_for(const Message& message) override {
    if (!known_.contains({message.forward, message.stage})) return std::nullopt;
    return std::vector<collective::Array>{{DType::kI64, &numbers_[message], 1}};
  }
  void learn(const Message& message, const Layout& layout) override {
    EXPECT_EQ(layout[100], std::byte{7});
    EXPECT_TRUE(known_.insert({message.forward, message.stage}).second) << "a layout travels once";
  }
  bool absent(std::uint32_t micro_batch) override { return micro_batch == absent_one; }

  std::map<std::uint32_t, std::int64_t> outputs;
  std::map<std::uint32_t, std::int64_t> gradients;
  std::uint32_t absent_one = 1000;

 private:
  std::uint32_t stages_;
  std::map<Message, std::int64_t> numbers_;
  std::set<std::pair<bool, std::uint32_t>> sent_kinds_;
  std::set<std::pair<bool, std::uint32_t>> known_;
};

/// Runs `steps` steps on threads; returns the stages of each rank, and the counts of the last step.
struct Ran {
  std::vector<std::unique_ptr<CountingStages>> stages;
  std::vector<RunCounts> counts;
};

Ran run(const plan::Schedule& schedule, int steps = 2, std::uint32_t absent_one = 1000) {
  const auto size = static_cast<std::uint32_t>(schedule.ranks.size());
  Ran ran;
  ran.counts.resize(size);
  for (std::uint32_t i = 0; i < size; ++i) {
    ran.stages.push_back(std::make_unique<CountingStages>(schedule.stages()));
    ran.stages.back()->absent_one = absent_one;
  }
  collective::expect_ranks(size, {}, [&](collective::Communicator& ranks) {
    Links links(ranks, schedule);
    for (int step = 0; step < steps; ++step) {
      ran.counts[ranks.rank()] = run_schedule(schedule, ranks.rank(), links, *ran.stages[ranks.rank()]);
    }
  });
  return ran;
}

void expect_counted(const Ran& ran, const plan::Schedule& schedule, std::uint32_t absent_one = 1000) {
  const std::uint32_t stages = schedule.stages();
  const CountingStages& last = *ran.stages[schedule.rank_of_stage.back()];
  const CountingStages& first = *ran.stages[schedule.rank_of_stage.front()];
  for (std::uint32_t b = 0; b < schedule.micro_batches; ++b) {
    if (b == absent_one) {
      EXPECT_FALSE(last.outputs.contains(b));
      continue;
    }
    EXPECT_EQ(last.outputs.at(b), 100 * b + stages) << schedule.name;
    EXPECT_EQ(first.gradients.at(b), 100 * b + stages + 1000 * stages) << schedule.name;
  }
}

TEST(RunSchedule, EveryScheduleMovesEveryMicroBatchThroughAllStages) {
  const auto shapes =
      exhaustive()
          ? std::vector<std::pair<std::uint32_t, std::uint32_t>>{{1, 3}, {2, 1}, {2, 5}, {3, 2}, {4, 8}, {8, 16}}
          : std::vector<std::pair<std::uint32_t, std::uint32_t>>{{1, 3}, {2, 1}, {3, 2}, {4, 7}};
  for (const ScheduleKind kind : plan::kScheduleKinds) {
    for (const auto& [ranks, micro_batches] : shapes) {
      const plan::Schedule schedule = schedule_of(kind, ranks, micro_batches);
      expect_counted(run(schedule), schedule);
    }
  }
}

TEST(RunSchedule, HoldsAsManyActivationsAsThePlanSays) {
  const std::vector<plan::StageTimes> times(1);
  for (const ScheduleKind kind : plan::kScheduleKinds) {
    const plan::Schedule schedule = schedule_of(kind, 4, 9);
    const Ran ran = run(schedule, 1);
    const plan::Evaluation planned = plan::evaluate(schedule, times);
    for (Rank rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(ran.counts[rank].peak_of_rank, planned.ranks[rank].peak_activations) << schedule.name << " " << rank;
    }
  }
}

TEST(RunSchedule, AMicroBatchWithoutSamplesHasNoMessages) {
  for (const ScheduleKind kind : plan::kScheduleKinds) {
    const plan::Schedule schedule = schedule_of(kind, 3, 4);
    expect_counted(run(schedule, 2, /*absent_one=*/3), schedule, 3);
  }
}

TEST(RunSchedule, ForwardAlone_OnAnyPlacementOfStages) {
  for (const std::vector<Rank>& placement :
       {std::vector<Rank>{0, 1, 2}, std::vector<Rank>{0, 1, 2, 2, 1, 0}, std::vector<Rank>{0, 1, 2, 0, 1, 2}}) {
    const plan::Schedule schedule = forward_schedule(placement, 4);
    const Ran ran = run(schedule);
    for (std::uint32_t b = 0; b < 4; ++b) {
      EXPECT_EQ(ran.stages[placement.back()]->outputs.at(b), 100 * b + placement.size());
    }
  }
}

TEST(RunSchedule, ARankThatDies_IsKnownToAllOthers) {
  const plan::Schedule schedule = schedule_of(ScheduleKind::k1F1B, 3, 6);
  const collective::Ranks ranks(3);
  const auto problems = ranks.run([&](Rank rank) {
    collective::Communicator communicator(*ranks.endpoints[rank], ranks.options(rank, {.deadline = 20s}));
    CountingStages stages(3);
    Links links(communicator, schedule);
    run_schedule(schedule, rank, links, stages);
    if (rank == 1) return;  // dies after a step
    run_schedule(schedule, rank, links, stages);
  });
  EXPECT_NE(problems[0], "");
  EXPECT_EQ(problems[1], "");
  EXPECT_NE(problems[2], "");
}

TEST(RunSchedule, RanksWithOtherSchedules_GetAnErrorNotAHang) {
  const collective::Ranks ranks(2);
  const auto problems = ranks.run([&](Rank rank) {
    collective::Communicator communicator(*ranks.endpoints[rank], ranks.options(rank, {.deadline = 2s}));
    const plan::Schedule schedule = schedule_of(ScheduleKind::k1F1B, 2, rank == 0 ? 4 : 3);
    CountingStages stages(2);
    Links links(communicator, schedule);
    run_schedule(schedule, rank, links, stages);
    communicator.run(collective::barrier());
  });
  EXPECT_NE(problems[0], "") << "its last micro-batch is never received";
}

}  // namespace
}  // namespace trireme::pipeline
