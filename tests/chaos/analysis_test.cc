#include "chaos/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chaos/report.h"

namespace trireme::chaos {
namespace {

using observe::StepEvent;
using ::testing::HasSubstr;

constexpr std::int64_t kMs = 1'000'000;

/// A run of workers that have two lanes each; the pid of a worker is 100 + slot unless it was restarted.
class Story {
 public:
  Story& begin(std::int64_t ms, Step step, View view, std::uint32_t slot, std::int64_t pid = 0) {
    return add(StepEvent::Kind::kBegin, ms, step, view, {2 * slot, 2}, slot, pid);
  }
  Story& commit(std::int64_t ms, Step step, View view, std::uint32_t slot, std::int64_t pid = 0) {
    return add(StepEvent::Kind::kCommit, ms, step, view, {2 * slot, 2}, slot, pid);
  }
  /// With all four lanes.
  Story& alone(std::int64_t ms, Step step, View view, std::uint32_t slot, bool commits = true) {
    add(StepEvent::Kind::kBegin, ms, step, view, {0, 4}, slot, 0);
    if (commits) add(StepEvent::Kind::kCommit, ms + 5, step, view, {0, 4}, slot, 0);
    return *this;
  }
  /// The view goes on with the step.
  Story& enter(std::int64_t ms, Step step, View view, std::uint32_t slot, std::int64_t pid = 0) {
    return add(StepEvent::Kind::kEnter, ms, step, view, {}, slot, pid);
  }
  Story& unit(std::int64_t ms, std::uint64_t number, std::uint32_t slot, bool commits = true) {
    const Step step = number / 4;
    const LaneRange lanes{static_cast<Lane>(number % 4), 1};
    add(StepEvent::Kind::kBegin, ms, step, 1, lanes, slot, 0);
    events.back().unit = number;
    if (!commits) return *this;
    add(StepEvent::Kind::kCommit, ms + 5, step, 1, lanes, slot, 0);
    events.back().unit = number;
    return *this;
  }
  /// Both workers make the step, from `ms` to `ms` + 10.
  Story& together(std::int64_t ms, Step step, View view) {
    return begin(ms, step, view, 0)
        .begin(ms, step, view, 1)
        .commit(ms + 10, step, view, 0)
        .commit(ms + 10, step, view, 1);
  }

  std::vector<StepEvent> events;

 private:
  Story& add(StepEvent::Kind kind, std::int64_t ms, Step step, View view, LaneRange lanes, std::uint32_t slot,
             std::int64_t pid) {
    events.push_back({.kind = kind,
                      .at = ms * kMs,
                      .step = step,
                      .view = view,
                      .lanes = lanes,
                      .slot = slot,
                      .pid = pid == 0 ? 100 + slot : pid});
    return *this;
  }
};

InjectedFault fault_at(std::int64_t ms, FaultKind kind = FaultKind::kKill, FaultRole role = FaultRole::kWorker,
                       std::uint32_t slot = 1) {
  return {.fault = {.kind = kind, .role = role, .slot = slot}, .at = ms * kMs, .pid = 100 + slot};
}

constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

WorkAudit audit(const Story& story, Step steps) {
  return audit_work(story.events, {.steps = steps, .lanes = 4, .samples = [](Step, Lane) { return 16; }});
}

/// Worker 1 is killed at 25 ms in step 2; worker 0 goes on alone from 60 ms, its successor takes part from 200 ms.
Story killed_in_step_2() {
  Story story;
  story.together(0, 0, 1).together(10, 1, 1).begin(20, 2, 1, 0).begin(20, 2, 1, 1);
  story.alone(60, 2, 2, 0).alone(70, 3, 2, 0);
  story.begin(200, 4, 3, 0).begin(200, 4, 3, 1, 555).commit(210, 4, 3, 0).commit(210, 4, 3, 1, 555);
  return story;
}

TEST(Recovery, IsTheFirstStepOfTheNextView) {
  const Recovery recovery = find_recovery(fault_at(25), killed_in_step_2().events, kForever);
  EXPECT_DOUBLE_EQ(recovery.seconds.value(), 0.040);
  EXPECT_DOUBLE_EQ(recovery.back_seconds.value(), 0.185);
  EXPECT_EQ(recovery.steps_redone, 1u);
}

TEST(Recovery, IgnoresAStepThatBeganBeforeTheFault) {
  Story story;
  story.begin(0, 0, 1, 0).begin(0, 0, 1, 1).commit(12, 0, 1, 0).alone(60, 1, 2, 0);
  EXPECT_DOUBLE_EQ(find_recovery(fault_at(10), story.events, kForever).seconds.value(), 0.055);
  EXPECT_EQ(find_recovery(fault_at(10), story.events, kForever).steps_redone, 0u);
  EXPECT_EQ(find_recovery(fault_at(10), story.events, kForever).back_seconds, std::nullopt);
}

TEST(Recovery, WithoutANewViewEndsWithTheFirstStepBegunAfterTheFault) {
  Story story;
  story.together(0, 0, 1).together(10, 1, 1).together(20, 2, 1);
  InjectedFault fault = fault_at(15, FaultKind::kKill, FaultRole::kMaster, 0);
  fault.replaced_at = 115 * kMs;
  const Recovery recovery = find_recovery(fault, story.events, kForever);
  EXPECT_DOUBLE_EQ(recovery.seconds.value(), 0.015);
  EXPECT_DOUBLE_EQ(recovery.back_seconds.value(), 0.100);
  EXPECT_EQ(recovery.steps_redone, 0u);
}

TEST(Recovery, IgnoresViewsAfterTheNextFault) {
  Story story = killed_in_step_2();
  const std::vector<InjectedFault> faults{fault_at(5, FaultKind::kStop), fault_at(25)};
  const auto recoveries = find_recoveries(faults, story.events);
  EXPECT_DOUBLE_EQ(recoveries[0].seconds.value(), 0.015);  // step 1, begun at 10
  EXPECT_EQ(recoveries[0].steps_redone, 0u);
  EXPECT_DOUBLE_EQ(recoveries[1].seconds.value(), 0.040);
}

TEST(Recovery, AStoppedWorkerIsBackInALaterView) {
  Story story;
  story.together(0, 0, 1).begin(10, 1, 1, 0).begin(10, 1, 1, 1).alone(3000, 1, 2, 0);
  story.begin(5000, 2, 3, 0).begin(5000, 2, 3, 1).commit(5010, 2, 3, 0).commit(5010, 2, 3, 1);
  const Recovery recovery = find_recovery(fault_at(10, FaultKind::kStop), story.events, kForever);
  EXPECT_DOUBLE_EQ(recovery.seconds.value(), 2.995);
  EXPECT_DOUBLE_EQ(recovery.back_seconds.value(), 5.000);
}

TEST(Recovery, IsMissingIfNoLaterStepCommits) {
  Story story;
  story.together(0, 0, 1).begin(10, 1, 1, 0);
  const Recovery recovery = find_recovery(fault_at(12), story.events, kForever);
  EXPECT_FALSE(recovery.seconds);
  EXPECT_EQ(recovery.steps_redone, 0u);
}

TEST(Recovery, CountsUnitsRepeatedByOthersAsRedone) {
  Story story;
  story.unit(0, 0, 0).unit(0, 1, 1, /*commits=*/false).unit(50, 1, 0).unit(60, 2, 0);
  const Recovery recovery = find_recovery(fault_at(3), story.events, kForever);
  EXPECT_EQ(recovery.steps_redone, 1u);
}

TEST(Audit, RunThatRecoversHasNoProblems) {
  const WorkAudit found = audit(killed_in_step_2(), 5);
  EXPECT_EQ(found.samples_missing, 0u) << found.first_problem;
  EXPECT_EQ(found.samples_repeated, 0u) << found.first_problem;
}

TEST(Audit, StepFinishedByOneWorkerCountsForAll) {
  Story story;  // worker 0 got the sum of step 0, worker 1 died before; nobody does it again
  story.begin(0, 0, 1, 0).begin(0, 0, 1, 1).commit(10, 0, 1, 0).alone(60, 1, 2, 0);
  EXPECT_EQ(audit(story, 2).first_problem, "");
}

TEST(Audit, StepFinishedOnlyByDeadWorkersMustBeRepeated) {
  Story story;
  story.begin(0, 0, 1, 0).begin(0, 0, 1, 1).commit(10, 0, 1, 1).alone(60, 0, 2, 0);
  EXPECT_EQ(audit(story, 1).first_problem, "");
}

TEST(Audit, StepThatASurvivorHadFinishedCountsAsRepeated) {
  Story story;
  story.begin(0, 0, 1, 0).begin(0, 0, 1, 1).commit(10, 0, 1, 0).alone(60, 0, 2, 0);
  const WorkAudit found = audit(story, 1);
  EXPECT_EQ(found.samples_repeated, 2 * 16u);  // its own two lanes
  EXPECT_THAT(found.first_problem, HasSubstr("lane 0 of step 0 took effect more than once"));
}

TEST(Audit, SurvivorThatRollsBackRepeatsNothing) {
  Story story;
  story.begin(0, 0, 1, 0).begin(0, 0, 1, 1).commit(10, 0, 1, 0).alone(60, 0, 2, 0);
  EXPECT_EQ(audit_work(story.events, {.steps = 1, .lanes = 4, .rolls_back = true}).first_problem, "");
}

TEST(Audit, ReportsWorkThatNoWorkerDid) {
  Story story;
  story.together(0, 0, 1).together(20, 2, 1);
  EXPECT_EQ(audit(story, 3).samples_missing, 4 * 16u);
  EXPECT_EQ(audit(Story().begin(0, 0, 1, 0).begin(0, 0, 1, 1), 1).samples_missing, 4 * 16u) << "begun is not done";
  const WorkAudit lane = audit(Story().begin(0, 0, 1, 0).commit(10, 0, 1, 0), 1);
  EXPECT_EQ(lane.samples_missing, 2 * 16u) << "nobody took lanes 2 and 3";
  EXPECT_THAT(lane.first_problem, HasSubstr("lane 2 of step 0 never"));
}

TEST(Audit, StepBeyondWhichTheNextViewGoesOnTookEffect) {
  Story alone;  // the servers have step 1; worker 0, which pushed it, was killed before it could say so
  alone.enter(0, 0, 1, 0).alone(0, 0, 1, 0).alone(10, 1, 1, 0, /*commits=*/false);
  alone.enter(60, 2, 2, 1).alone(70, 2, 2, 1);
  EXPECT_EQ(audit(alone, 3).first_problem, "");
  Story both;  // both were killed; the only process of the next view that lived to say where it went on
  both.together(0, 0, 1).begin(10, 1, 1, 0).begin(10, 1, 1, 1);
  both.enter(60, 2, 3, 1, 555);
  EXPECT_EQ(audit(both, 2).first_problem, "") << "the last step";
}

TEST(Audit, StepThatIsSkippedWithoutBeingComputedIsMissing) {
  Story nobody;  // step 1 was not begun by anybody
  nobody.enter(0, 0, 1, 0).alone(0, 0, 1, 0).enter(60, 2, 2, 1).alone(70, 2, 2, 1);
  EXPECT_EQ(audit(nobody, 3).samples_missing, 4 * 16u);
  Story half;  // worker 1 died before it began: the sum of lanes 2 and 3 cannot have been complete
  half.together(0, 0, 1).begin(10, 1, 1, 0).enter(60, 2, 2, 0).alone(70, 2, 2, 0);
  EXPECT_EQ(audit(half, 3).samples_missing, 2 * 16u);
  EXPECT_THAT(audit(half, 3).first_problem, HasSubstr("lane 2 of step 1 never"));
  Story halves;  // each lane was begun, but never all of them in one view
  halves.together(0, 0, 1).begin(10, 1, 1, 0).enter(20, 1, 2, 1).begin(30, 1, 2, 1).enter(60, 2, 3, 1);
  EXPECT_EQ(audit(halves, 2).samples_missing, 2 * 16u);
  Story again;  // the next view went on with the step itself, and nobody made it there
  again.together(0, 0, 1).begin(10, 1, 1, 0).begin(10, 1, 1, 1).enter(60, 1, 2, 0);
  EXPECT_EQ(audit(again, 2).samples_missing, 4 * 16u);
}

TEST(Recovery, IsNotTheEntryIntoAView) {
  Story story;
  story.together(0, 0, 1).begin(20, 1, 1, 0).begin(20, 1, 1, 1).enter(60, 1, 2, 0).enter(60, 1, 2, 1, 555);
  EXPECT_FALSE(find_recovery(fault_at(25), story.events, kForever).seconds);
  EXPECT_FALSE(find_recovery(fault_at(25), story.events, kForever).back_seconds);
  EXPECT_DOUBLE_EQ(pace_of(story.events, 4).seconds, 0.010);
}

TEST(Audit, UnitsCountOnce) {
  Story story;
  story.unit(0, 0, 0).unit(0, 1, 1).unit(10, 1, 0).unit(20, 3, 0);
  const WorkAudit found =
      audit_work(story.events, {.steps = 1, .lanes = 4, .leased = true, .samples = [](Step, Lane) { return 16; }});
  EXPECT_EQ(found.samples_missing, 16u);
  EXPECT_EQ(found.samples_repeated, 16u);
}

TEST(Work, OfAProgramIsFoundInItsTrace) {
  const WorkPlan steps = work_seen_in(killed_in_step_2().events);
  EXPECT_EQ(steps.lanes, 4u);
  EXPECT_FALSE(steps.leased);
  EXPECT_EQ(why_bits_may_differ(steps), "");
  const WorkPlan units = work_seen_in(Story().unit(0, 0, 0).unit(5, 3, 1).events);
  EXPECT_EQ(units.lanes, 4u);
  EXPECT_TRUE(units.leased);
  EXPECT_THAT(why_bits_may_differ(units), HasSubstr("asynchronous"));
}

TEST(Pace, CountsEachStepOnce) {
  const Pace pace = pace_of(killed_in_step_2().events, 4);
  EXPECT_DOUBLE_EQ(pace.steps, 5);
  EXPECT_DOUBLE_EQ(pace.seconds, 0.210);
  Story units;
  units.unit(0, 0, 0).unit(5, 1, 0).unit(10, 1, 1);
  EXPECT_DOUBLE_EQ(pace_of(units.events, 4).steps, 0.5);
  EXPECT_DOUBLE_EQ(pace_of({}, 4).rate(), 0);
}

TEST(Growth, ComparesTheFirstAndTheLastThird) {
  EXPECT_FALSE(judge_growth("master", "files", {10, 11, 10, 50, 60, 50, 12, 13, 12}, 0, 3).grown());
  EXPECT_TRUE(judge_growth("master", "files", {10, 11, 10, 11, 12, 13, 14, 15, 16}, 0, 3).grown());
  EXPECT_FALSE(judge_growth("master", "memory", {100, 100, 100, 105, 105, 109}, 0.1, 1).grown());
}

class ChaosReports : public ::testing::Test {
 protected:
  ChaosReport report_{.recoveries = find_recoveries(std::vector{fault_at(25)}, killed_in_step_2().events),
                      .planned = 1,
                      .pace = {.steps = 100, .seconds = 12.5},
                      .reference = Pace{.steps = 100, .seconds = 10},
                      .parameters_sha256 = "aaaa",
                      .reference_sha256 = "aaaa"};
};

TEST_F(ChaosReports, SoundRunHasNoProblems) {
  EXPECT_DOUBLE_EQ(report_.goodput(), 0.8);
  EXPECT_TRUE(problems_of(report_).empty());
  const std::string text = to_text(report_);
  EXPECT_THAT(text, HasSubstr("goodput 80.0 %"));
  EXPECT_THAT(text, HasSubstr("PASSED: 1 fault survived"));
  const observe::Json object = to_object(report_);
  EXPECT_EQ(object["passed"], true);
  EXPECT_EQ(object["recoveries"][0]["steps_redone"], 1);
  EXPECT_EQ(object["recoveries"][0]["role"], "worker");
  EXPECT_EQ(object["by_role"][0]["recovered"], 1);
}

TEST_F(ChaosReports, SayWhatIsWrong) {
  report_.parameters_sha256 = "bbbb";
  report_.audit = {.samples_missing = 3, .first_problem = "lane 0 of step 1 never took effect"};
  report_.growth = {{.process = "master", .what = "sockets", .first = 5, .last = 50, .allowed = 8}};
  EXPECT_EQ(problems_of(report_).size(), 3u);
  EXPECT_THAT(to_text(report_), HasSubstr("FAILED: the run did not end with the parameters of the undisturbed one"));
  EXPECT_THAT(to_text(report_), HasSubstr("lane 0 of step 1"));
  EXPECT_THAT(to_text(report_), HasSubstr("sockets of master grow"));
  report_.not_compared = "they never repeat";
  EXPECT_EQ(problems_of(report_).size(), 2u);
}

TEST_F(ChaosReports, TellAProgramThatIsNotDeterministic) {
  report_.parameters_sha256 = "bbbb";
  report_.compared = "state";
  report_.reproducible = false;
  EXPECT_THAT(problems_of(report_), ::testing::ElementsAre(HasSubstr("the program is not deterministic")));
}

TEST_F(ChaosReports, RunWithoutFaultsIsAProblem) {
  report_.recoveries.clear();
  EXPECT_THAT(problems_of(report_), ::testing::ElementsAre(HasSubstr("no fault was injected")));
}

TEST_F(ChaosReports, AFailedRunIsOneProblem) {
  report_.failure = "server 0 died";
  report_.parameters_sha256 = "";
  report_.audit = {.samples_missing = 300, .first_problem = "x"};
  EXPECT_EQ(problems_of(report_), std::vector<std::string>{"the run failed: server 0 died"});
  EXPECT_DOUBLE_EQ(report_.goodput(), 0);
}

}  // namespace
}  // namespace trireme::chaos
