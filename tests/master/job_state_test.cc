// What the master decides when, with the time set by hand: no thread, no connection, no clock.
#include "master/job_state.h"

#include <map>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/expect_fails.h"

namespace trireme::master {
namespace {

using cluster::JobPhase;
using cluster::Regroup;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Keeps what is sent.
class FakeChannel final : public net::Channel {
 public:
  void start() override {}
  void send(net::OutFrame frame) override { sent.push_back(std::move(frame)); }
  void close(const std::string& /*reason*/) override {}
  std::string peer() const override { return "a test"; }
  void pump(const std::atomic<bool>& /*done*/, Deadline /*deadline*/) override {}

  std::vector<net::OutFrame> sent;
};

class FakeSession final : public net::Session {
 public:
  explicit FakeSession(std::uint64_t id) {
    id_ = id;
    channel_ = fake_;
  }

  std::optional<std::vector<MutableBytes>> place(const net::FrameHeader& /*header*/) override { return {}; }
  void on_frame(net::InFrame /*frame*/) override {}
  void on_close(const std::string& /*reason*/) override {}

  /// The last answer to a join; nullopt if it still waits.
  std::optional<cluster::JoinReply> answer() const {
    if (fake_->sent.empty() || fake_->sent.back().header.flags != net::kReply) return std::nullopt;
    return net::decode_message<cluster::JoinReply>(as_bytes(fake_->sent.back().body));
  }
  std::size_t answers() const { return fake_->sent.size(); }

 private:
  std::shared_ptr<FakeChannel> fake_ = std::make_shared<FakeChannel>();
};

/// A job of workers without servers. Times are those of a master in production.
class JobStateTest : public ::testing::Test {
 protected:
  static MasterOptions options(JobShape shape) {
    shape.servers = 0;
    return {.service = {},
            .shape = shape,
            .hang_after = 3s,
            .gather_within = 120s,
            .wait_for_members = 600s,
            .plan_within = 20s,
            .log_entry = {}};
  }

  /// `shape.workers` workers in view 1, who have told their plan.
  void start(const JobShape& shape) {
    gather(shape);
    job_->set_plan(now_, plan_);
  }

  void gather(const JobShape& shape) {
    job_.emplace(options(shape), now_);
    for (std::uint32_t slot = 0; slot < shape.workers; ++slot) join(slot);
  }

  /// A new process in `slot`.
  void join(std::uint32_t slot, bool as_learner = false) {
    sessions_[slot] = std::make_shared<FakeSession>(++last_session_);
    job_->join(now_, sessions_[slot], {}, {.slot = slot, .pid = 100 + slot, .as_learner = as_learner});
  }

  /// A member cannot stay in its view.
  void regroup(std::uint32_t slot) {
    const auto known = answer(slot);
    job_->join(now_, sessions_[slot], {},
               {.slot = slot, .pid = 100 + slot, .member = known.member, .view = known.view.view});
  }

  cluster::JoinReply answer(std::uint32_t slot) const { return sessions_.at(slot)->answer().value(); }

  cluster::HeartbeatReply beat(std::uint32_t slot, const cluster::WorkDone& work = {}) {
    return job_->heartbeat(now_, sessions_.at(slot)->id(), {.member = answer(slot).member, .work = work});
  }

  /// Lets `time` pass; every 100 ms the master looks, and these are heard of.
  void pass(std::chrono::milliseconds time, const std::vector<std::uint32_t>& alive) {
    for (const auto until = now_ + time; now_ < until;) {
      now_ += 100ms;
      for (const std::uint32_t slot : alive) beat(slot);
      job_->tick(now_);
    }
  }

  JobPhase phase() const { return job_->status(now_).state; }
  std::string reason() const { return job_->status(now_).reason; }
  std::vector<std::uint32_t> workers() const { return slots_of(job_->status(now_).workers); }

  cluster::Plan plan_{
      .steps = 100, .steps_per_epoch = 100, .batch = 8, .lanes = 4, .elastic = true, .strategy = "allreduce"};
  JobState::Time now_{};
  std::optional<JobState> job_;
  std::map<std::uint32_t, std::shared_ptr<FakeSession>> sessions_;  // by slot
  std::uint64_t last_session_ = 0;
};

TEST_F(JobStateTest, SlotsAreGivenOutOnceToThoseWithoutARank) {
  MasterOptions with_server = options({.workers = 3});
  with_server.shape.servers = 1;
  job_.emplace(with_server, now_);
  join(1);  // one that has a rank
  EXPECT_EQ(job_->claim(cluster::Role::kWorker).slot, 0u);
  EXPECT_EQ(job_->claim(cluster::Role::kWorker).slot, 2u);
  EXPECT_EQ(job_->claim(cluster::Role::kServer).slot, 0u);
  EXPECT_FAILS(job_->claim(cluster::Role::kWorker), InvalidArgument, "no place for another worker");
  EXPECT_FAILS(job_->claim(cluster::Role::kServer), InvalidArgument, "no place for another server");
}

TEST_F(JobStateTest, GatheringEndsWhenItsTimeIsUp) {
  job_.emplace(options({.workers = 2}), now_);
  join(1);
  pass(120s, {});
  EXPECT_EQ(phase(), JobPhase::kGathering);
  pass(100ms, {});
  EXPECT_EQ(phase(), JobPhase::kFailed);
  EXPECT_THAT(reason(), HasSubstr("worker 0 did not join within 120 s"));
}

TEST_F(JobStateTest, GatheringEndsWithEnoughWorkersInAView) {
  job_.emplace(options({.workers = 3, .min_start = 2}), now_);
  join(0);
  join(2);
  pass(120s, {});
  EXPECT_FALSE(sessions_[0]->answer()) << "it still waits";
  pass(100ms, {});
  EXPECT_EQ(answer(0).view.view, 1u);
  EXPECT_EQ(workers(), (std::vector<std::uint32_t>{0, 2}));
}

TEST_F(JobStateTest, SilentMemberIsExpelledAndMayRejoin) {
  start({.workers = 2});
  pass(3s, {0});
  EXPECT_EQ(beat(0).regroup, Regroup::kNo) << "it may still be heard of";
  pass(100ms, {0});
  const auto told = beat(0);
  EXPECT_EQ(told.regroup, Regroup::kNow);
  EXPECT_THAT(told.reason, HasSubstr("worker 1 (pid 101) hangs: no heartbeat for 3.1 s"));
  regroup(0);
  EXPECT_EQ(workers(), (std::vector<std::uint32_t>{0}));

  EXPECT_TRUE(beat(1).expelled);
  regroup(1);
  EXPECT_EQ(beat(0).regroup, Regroup::kAfterStep);
  regroup(0);
  EXPECT_EQ(answer(1).view.view, 3u);
  EXPECT_EQ(workers(), (std::vector<std::uint32_t>{0, 1}));
}

TEST_F(JobStateTest, MemberWaitingForAViewNeedsNoHeartbeat) {
  start({.workers = 3});
  job_->disconnected(now_, sessions_[2]->id());
  regroup(1);
  pass(1min, {0});
  EXPECT_EQ(phase(), JobPhase::kRunning);
  regroup(0);
  EXPECT_EQ(answer(1).view.view, 2u);
}

TEST_F(JobStateTest, OthersDoNotWaitForALiveLearner) {
  start({.workers = 2});
  job_->scale(now_, {.workers = 3});
  join(2, /*as_learner=*/true);
  EXPECT_TRUE(answer(2).learner);
  EXPECT_EQ(answer(2).view.workers.size(), 3u);
  pass(1min, {0, 1, 2});
  EXPECT_EQ(beat(0).regroup, Regroup::kNo);
  EXPECT_FALSE(beat(2).expelled);
  EXPECT_EQ(workers(), (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(slots_of(job_->status(now_).others), (std::vector<std::uint32_t>{2}));
  EXPECT_EQ(job_->status(now_).clocks.size(), 2u);
}

TEST_F(JobStateTest, SilentLearnerIsGivenUpWithoutDisturbingTheOthers) {
  start({.workers = 2});
  job_->scale(now_, {.workers = 3});
  join(2, /*as_learner=*/true);
  pass(4s, {0, 1});
  EXPECT_TRUE(beat(2).expelled);
  EXPECT_EQ(beat(0).regroup, Regroup::kNo);
  EXPECT_EQ(job_->status(now_).view, 1u);
}

TEST_F(JobStateTest, BelowTheMinimumWaitsAndFailsAfterTheTimeout) {
  start({.workers = 2, .min_workers = 2});
  job_->disconnected(now_, sessions_[1]->id());
  regroup(0);
  EXPECT_EQ(phase(), JobPhase::kWaiting);
  EXPECT_THAT(reason(), HasSubstr("1 of at least 2 workers are here"));
  pass(600s, {});
  EXPECT_EQ(phase(), JobPhase::kWaiting);
  pass(100ms, {});
  EXPECT_EQ(phase(), JobPhase::kFailed);
  EXPECT_THAT(reason(), HasSubstr("nobody came within 600 s"));
  EXPECT_EQ(sessions_[0]->answers(), 2u) << "who waited is told";
}

TEST_F(JobStateTest, DeathBeforeThePlanWaitsForThePlanNotForever) {
  gather({.workers = 2});
  job_->disconnected(now_, sessions_[1]->id());
  pass(19s, {0});
  EXPECT_EQ(phase(), JobPhase::kRunning);
  pass(1s, {0});
  EXPECT_EQ(phase(), JobPhase::kFailed);
  EXPECT_THAT(reason(), HasSubstr("worker 1 (pid 101) died"));
}

/// A member whose connection was cut asks over another one; that the first has ended may be noticed after that.
TEST_F(JobStateTest, EndOfAConnectionThatWasReplacedDoesNotEndTheWaitForAView) {
  start({.workers = 2});
  const auto known = answer(1);
  const auto cut = sessions_[1];
  const auto other = std::make_shared<FakeSession>(++last_session_);
  job_->join(now_, other, {}, {.slot = 1, .pid = 101, .member = known.member, .view = known.view.view});
  job_->heartbeat(now_, cut->id(), {.member = known.member});  // sent before
  job_->disconnected(now_, cut->id());
  regroup(0);
  ASSERT_TRUE(other->answer());
  EXPECT_EQ(other->answer()->view.view, 2u);
  EXPECT_THAT(workers(), ElementsAre(0, 1));
}

TEST_F(JobStateTest, SilenceWhileTheMasterWasSuspendedDoesNotCount) {
  start({.workers = 2});
  now_ += 10s;  // this process was stopped
  job_->tick(now_);
  job_->disconnected(now_, sessions_[0]->id());  // it looked for another master
  pass(4s, {});
  EXPECT_EQ(beat(0).regroup, Regroup::kNo);  // both come back
  EXPECT_EQ(beat(1).regroup, Regroup::kNo);
  pass(10s, {0, 1});
  EXPECT_EQ(phase(), JobPhase::kRunning);
  EXPECT_EQ(job_->status(now_).view, 1u);
}

TEST_F(JobStateTest, MemberThatDoesNotReturnAfterASuspensionIsGivenUp) {
  start({.workers = 2});
  now_ += 10s;
  job_->tick(now_);
  beat(0);
  pass(5s, {0});
  EXPECT_EQ(beat(0).regroup, Regroup::kNo);
  pass(100ms, {0});
  EXPECT_EQ(beat(0).regroup, Regroup::kNow);
}

TEST_F(JobStateTest, APlanThatSaysMoreCountsWhicheverComesFirst) {
  const cluster::Plan begun{.lanes = 2, .strategy = "own loop"};
  const cluster::Plan elastic{.batch = 8, .lanes = 4, .elastic = true, .strategy = "own loop"};
  for (const auto& plans : {std::vector{begun, elastic}, std::vector{elastic, begun}}) {
    gather({.workers = 2});
    for (const cluster::Plan& plan : plans) job_->set_plan(now_, plan);
    EXPECT_EQ(job_->status(now_).plan, elastic);
    cluster::Plan other = elastic;
    other.lanes = 8;
    EXPECT_FAILS(job_->set_plan(now_, other), InvalidArgument, "do not agree");
  }
}

TEST_F(JobStateTest, MembersGetTimeToFindTheNextMaster) {
  SavedText saved;
  const auto with_log = [&] {
    MasterOptions all = options({.workers = 2});
    all.log_entry = {.saved = saved, .save = [&](const SavedText& changes) { saved.apply(changes); }};
    return all;
  };
  job_.emplace(with_log(), now_);
  for (const std::uint32_t slot : {0u, 1u}) join(slot);
  job_->set_plan(now_, plan_);

  now_ += 1h;
  job_.emplace(with_log(), now_);
  EXPECT_EQ(job_->status(now_).view, 1u);
  pass(5s, {0});
  EXPECT_EQ(beat(0).regroup, Regroup::kNo);
  pass(100ms, {0});
  EXPECT_EQ(beat(0).regroup, Regroup::kNow) << "worker 1 never came";
}

TEST_F(JobStateTest, MasterThatDoesNotLeadGivesUpNobody) {
  bool leading = true;
  MasterOptions all = options({.workers = 2});
  all.log_entry.leading = [&] { return leading; };
  job_.emplace(all, now_);
  for (const std::uint32_t slot : {0u, 1u}) join(slot);
  job_->set_plan(now_, plan_);
  leading = false;
  pass(10min, {0});  // the store is away, and worker 1 has lost its way to this master
  job_->disconnected(now_, sessions_[0]->id());
  EXPECT_FALSE(beat(1).expelled);
  EXPECT_FALSE(job_->heartbeat(now_, 77, {.member = 4711}).expelled) << "another master may know it";
  EXPECT_EQ(beat(0).regroup, Regroup::kNo);
  leading = true;
  pass(10s, {0, 1});
  EXPECT_EQ(beat(0).regroup, Regroup::kNo);
  EXPECT_EQ(job_->status(now_).view, 1u);
}

TEST_F(JobStateTest, MemberThatDiedWhileTheMasterDidNotLeadIsGivenUpAfterwards) {
  bool leading = true;
  MasterOptions all = options({.workers = 2});
  all.log_entry.leading = [&] { return leading; };
  job_.emplace(all, now_);
  for (const std::uint32_t slot : {0u, 1u}) join(slot);
  job_->set_plan(now_, plan_);
  leading = false;
  job_->disconnected(now_, sessions_[1]->id());
  pass(10min, {0});
  EXPECT_EQ(beat(0).regroup, Regroup::kNo);
  leading = true;
  pass(100ms, {0});
  EXPECT_EQ(beat(0).regroup, Regroup::kNow);
}

TEST_F(JobStateTest, ASlowWorkerIsNamedOnceItsPaceHasSettled) {
  start({.workers = 4});
  const auto work = [&](std::chrono::milliseconds time) {
    for (const auto until = now_ + time; now_ < until;) {
      now_ += 100ms;
      for (std::uint32_t slot = 0; slot < 4; ++slot) {
        beat(slot, {.samples = 2, .busy_s = slot == 1 ? 0.8 : 0.1, .lanes = 1});
      }
      job_->tick(now_);
    }
  };
  work(2900ms);
  EXPECT_TRUE(job_->status(now_).stragglers.empty()) << "the paces have not settled";
  work(200ms);
  ASSERT_EQ(job_->status(now_).stragglers.size(), 1u);
  EXPECT_EQ(job_->status(now_).stragglers[0].slot, 1u);
}

TEST_F(JobStateTest, RefusesAJobWithoutWorkers) {
  EXPECT_FAILS(JobState(options({.workers = 0}), now_), InvalidArgument, "worker");
}

TEST_F(JobStateTest, CountsLossesAndHowLongARecoveryTook) {
  start({.workers = 2});
  beat(0, {.clock = 5, .samples = 40});
  pass(1s, {0, 1});
  job_->disconnected(now_, sessions_[1]->id());  // worker 1 died
  EXPECT_EQ(job_->status(now_).counters.failures.at("worker died"), 1u);
  pass(2s, {0});
  EXPECT_NEAR(job_->status(now_).counters.recovering_s, 2.0, 1e-9);
  regroup(0);
  EXPECT_EQ(answer(0).view.view, 2u);
  beat(0, {.clock = 5});  // no more than before the loss
  EXPECT_EQ(job_->status(now_).counters.recovery_s.count(), 0u);
  pass(500ms, {0});
  beat(0, {.clock = 6, .samples = 8});
  const cluster::JobCounters counters = job_->status(now_).counters;
  EXPECT_EQ(counters.recovery_s.count(), 1u);
  EXPECT_NEAR(counters.recovery_s.sum, 2.5, 1e-9);
  EXPECT_EQ(counters.recovering_s, 0);
  EXPECT_EQ(counters.steps, 6u);
  EXPECT_EQ(counters.samples, 48u);
}

TEST_F(JobStateTest, AllAreAskedAtOnceAboutStepsThatAllHaveMade) {
  start({.workers = 2});
  beat(0, {.clock = 6});
  beat(1, {.clock = 4});
  job_->record(now_, {.steps = 3});
  EXPECT_EQ(beat(0, {.clock = 6}).record_until, 3u);  // counted from 0
  EXPECT_EQ(beat(1, {.clock = 5}).record_until, 3u) << "before the first report";
}

TEST_F(JobStateTest, TellsWhatEachWorkerDoesAndHowLongItIsSilent) {
  start({.workers = 2});
  job_->heartbeat(now_, sessions_.at(1)->id(),
                  {.member = answer(1).member,
                   .work = {.clock = 3, .samples = 4, .phases = {1, 2, 3, 4, 5, 6, 7}},
                   .activity = {.what = "wait", .step = 3, .for_s = 0.5},
                   .load = {.name = "node7", .cores = 8}});
  now_ += 1500ms;
  beat(0);
  const cluster::JobStatus status = job_->status(now_);
  EXPECT_EQ(status.workers.at(0).silent_s, 0);
  EXPECT_NEAR(status.workers.at(1).silent_s, 1.5, 1e-9);
  EXPECT_EQ(status.workers.at(1).activity.what, "wait");
  EXPECT_EQ(status.workers.at(1).load.name, "node7");
  EXPECT_EQ(status.workers.at(1).clock, 3u);
  EXPECT_EQ(status.workers.at(1).phases.at(3), 4);
  EXPECT_EQ(status.workers.at(1).lanes, 2u);
}

}  // namespace
}  // namespace trireme::master
