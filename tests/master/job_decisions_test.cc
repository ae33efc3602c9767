// The master's knowledge of its job, asked directly: without service, threads or members that are more than words.
#include "base/error.h"
#include "master/job_state.h"
#include "tests/master/recording_session.h"
#include "tests/support/expect_fails.h"

namespace trireme::master {
namespace {

using cluster::JobPhase;
using cluster::Role;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A job and the connections of those who want to take part.
struct JobDecisionsTest : ::testing::Test {
  JobState& job(JobShape shape, MasterLogEntry log = {}) {
    log.save = [this](const std::string& text) {
      if (store_fails) throw IoError("the disk is full");
      saved = text;
    };
    state = std::make_unique<JobState>(MasterOptions{.service = {}, .shape = shape, .hang_after = 1h, .log_entry = log},
                                       now);
    return *state;
  }

  /// A process asks to join; its answer comes when there is a view.
  RecordingSession& join(Role role, std::uint32_t slot, cluster::JoinRequest request = {}) {
    request.role = role;
    request.slot = slot;
    sessions.push_back(std::make_shared<RecordingSession>(sessions.size() + 1));
    state->join(now, sessions.back(), {.request = 1}, request);
    return *sessions.back();
  }
  RecordingSession& join_worker(std::uint32_t slot) { return join(Role::kWorker, slot); }

  /// Members 1, 2, ... are workers 0, 1, ...; in view 1.
  void start_workers(std::uint32_t count) {
    job({.workers = count, .servers = 0});
    for (std::uint32_t slot = 0; slot < count; ++slot) join_worker(slot);
  }

  cluster::HeartbeatReply beat(cluster::MemberId member) { return state->heartbeat(now, member, {.member = member}); }

  /// The connection through which `member` joined, has ended: the first ones have the members' numbers.
  void lose(cluster::MemberId member) {
    state->tick(now);
    state->disconnected(now, member);
  }

  static cluster::Plan elastic_plan() { return {.steps = 10, .batch = 8, .lanes = 4, .elastic = true}; }

  const Deadline::Clock::time_point now = Deadline::Clock::now();
  bool store_fails = false;
  std::string saved;
  std::vector<std::shared_ptr<RecordingSession>> sessions;
  std::unique_ptr<JobState> state;
};

TEST_F(JobDecisionsTest, FirstViewFormsWhenTheLastMemberHasJoined) {
  job({.workers = 2, .servers = 1});
  EXPECT_THAT(state->status(now).reason, HasSubstr("waiting for server 0, worker 0, worker 1"));
  RecordingSession& second = join_worker(1);
  RecordingSession& first = join_worker(0);
  EXPECT_EQ(first.answers(), 0);
  EXPECT_EQ(state->status(now).state, JobPhase::kGathering);
  EXPECT_THAT(state->status(now).reason, HasSubstr("server 0"));
  join(Role::kServer, 0);
  EXPECT_EQ(state->status(now).state, JobPhase::kRunning);
  const auto view = first.take<cluster::JoinReply>().view;
  EXPECT_EQ(view.view, 1);
  EXPECT_EQ(view.workers.size(), 2);
  EXPECT_EQ(view.shards.size(), cluster::kShardsPerServer);
  EXPECT_EQ(second.take<cluster::JoinReply>().view.view, 1);
}

TEST_F(JobDecisionsTest, JobWithoutWorkersIsRefused) {
  EXPECT_FAILS(job({.workers = 0}), InvalidArgument, "at least one worker");
}

TEST_F(JobDecisionsTest, RefusesInvalidAndDuplicateSlots) {
  job({.workers = 2, .servers = 0});
  EXPECT_FAILS(join_worker(2), InvalidArgument, "worker 2", "2 workers");
  join_worker(0);
  EXPECT_FAILS(join_worker(0), InvalidArgument, "worker 0 has joined already");
}

TEST_F(JobDecisionsTest, ViewIsNotGivenOutBeforeItIsSaved) {
  job({.workers = 1, .servers = 0});
  store_fails = true;
  RecordingSession& worker = join_worker(0);
  EXPECT_EQ(worker.answers(), 0);
  store_fails = false;
  state->tick(now);
  EXPECT_EQ(worker.take<cluster::JoinReply>().view.view, 1);
  EXPECT_NE(saved, "");
}

TEST_F(JobDecisionsTest, LostWorkerEndsAJobThatIsNotElastic) {
  start_workers(2);
  lose(2);
  EXPECT_EQ(state->status(now).state, JobPhase::kFailed);
  EXPECT_TRUE(state->ended());
  EXPECT_THAT(state->status(now).reason, HasSubstr("worker 1"));
  EXPECT_THAT(beat(1).abort, HasSubstr("worker 1"));
  EXPECT_FAILS(join_worker(1), StaleView, "the job has failed", "worker 1");
}

TEST_F(JobDecisionsTest, OfWorkersThatCannotReachEachOtherOneIsLeftOut) {
  start_workers(2);
  state->set_plan(now, elastic_plan());
  RecordingSession& chief = join(Role::kWorker, 0, {.member = 1, .view = 1, .reason = "silence", .unreachable = {2}});
  EXPECT_EQ(chief.answers(), 0) << "the other one lives, and has not asked yet";
  RecordingSession& other = join(Role::kWorker, 1, {.member = 2, .view = 1, .reason = "silence", .unreachable = {1}});
  const auto reply = chief.take<cluster::JoinReply>();
  ASSERT_EQ(reply.view.workers.size(), 1);
  EXPECT_EQ(reply.view.workers[0].slot, 0);
  EXPECT_EQ(reply.hang_after_ms, 3'600'000);
  EXPECT_EQ(other.answers(), 0) << "it waits in reserve";
  EXPECT_THAT(state->status(now).reason, HasSubstr("worker 1 is left out: it and worker 0 reach the master"));
  EXPECT_THAT(state->status(now).others, ElementsAre(1));
  EXPECT_EQ(beat(1).regroup, cluster::Regroup::kNo) << "no view with the same two";
  state->tick(now + 6min);
  EXPECT_NE(state->heartbeat(now + 6min, 1, {.member = 1}).regroup, cluster::Regroup::kNo) << "they may try again";
}

TEST_F(JobDecisionsTest, LostWorkerOfAnElasticJobMakesTheOthersRegroupNow) {
  start_workers(2);
  state->set_plan(now, elastic_plan());
  EXPECT_EQ(beat(1).regroup, cluster::Regroup::kNo);
  lose(2);
  const auto reply = beat(1);
  EXPECT_EQ(reply.regroup, cluster::Regroup::kNow);
  EXPECT_THAT(reply.reason, HasSubstr("worker 1"));
  RecordingSession& survivor = join(Role::kWorker, 0, {.member = 1, .view = 1, .reason = "worker 1 is gone"});
  const auto view = survivor.take<cluster::JoinReply>().view;
  EXPECT_EQ(view.view, 2);
  ASSERT_EQ(view.workers.size(), 1);
  EXPECT_EQ(view.workers[0].id, 1);
}

TEST_F(JobDecisionsTest, HeartbeatOfAMemberThatWasGivenUpSaysSo) {
  start_workers(2);
  state->set_plan(now, elastic_plan());
  lose(2);
  EXPECT_TRUE(beat(2).expelled);
  EXPECT_TRUE(beat(4711).expelled);
  EXPECT_FALSE(beat(1).expelled);
}

TEST_F(JobDecisionsTest, NewcomerOfAnElasticJobTakesPartAfterAStep) {
  start_workers(2);
  state->set_plan(now, elastic_plan());
  lose(2);
  join(Role::kWorker, 0, {.member = 1, .view = 1});
  RecordingSession& newcomer = join_worker(1);
  EXPECT_EQ(newcomer.answers(), 0);
  EXPECT_EQ(beat(1).regroup, cluster::Regroup::kAfterStep);
  EXPECT_THAT(state->status(now).others, ElementsAre(1));
  join(Role::kWorker, 0, {.member = 1, .view = 2});
  const auto view = newcomer.take<cluster::JoinReply>().view;
  EXPECT_EQ(view.view, 3);
  ASSERT_EQ(view.workers.size(), 2);
  EXPECT_EQ(view.workers[0].id, 1);  // who has been here longest is the chief
  EXPECT_EQ(view.workers[1].id, 3);
}

TEST_F(JobDecisionsTest, JobWithTooFewWorkersWaitsForMore) {
  job({.workers = 2, .min_workers = 2, .servers = 0});
  join_worker(0);
  join_worker(1);
  state->set_plan(now, elastic_plan());
  lose(2);
  RecordingSession& survivor = join(Role::kWorker, 0, {.member = 1, .view = 1});
  EXPECT_EQ(state->status(now).state, JobPhase::kWaiting);
  EXPECT_EQ(survivor.answers(), 0);
  join_worker(1);
  EXPECT_EQ(state->status(now).state, JobPhase::kRunning);
  EXPECT_EQ(survivor.take<cluster::JoinReply>().view.view, 2);
}

TEST_F(JobDecisionsTest, WorkersMustAgreeOnThePlan) {
  start_workers(2);
  state->set_plan(now, elastic_plan());
  state->set_plan(now, elastic_plan());
  cluster::Plan other = elastic_plan();
  other.steps = 11;
  EXPECT_FAILS(state->set_plan(now, other), InvalidArgument, "do not agree");
}

TEST_F(JobDecisionsTest, StopIsToldWithTheNextHeartbeat) {
  start_workers(1);
  EXPECT_FALSE(beat(1).stop);
  state->stop({.reason = "enough"});
  EXPECT_TRUE(beat(1).stop);
}

TEST_F(JobDecisionsTest, JobIsFinishedWhenAllWorkersHaveLeft) {
  start_workers(2);
  state->leave(now, {.member = 1});
  EXPECT_EQ(state->status(now).state, JobPhase::kRunning);
  state->leave(now, {.member = 2});
  EXPECT_EQ(state->status(now).state, JobPhase::kFinished);
  EXPECT_TRUE(state->no_members_left());
  EXPECT_TRUE(join_worker(0).take<cluster::JoinReply>().over);
}

TEST_F(JobDecisionsTest, WorkerThatLeavesWithAFailureFailsTheJob) {
  start_workers(2);
  state->leave(now, {.member = 1, .failure = "out of memory"});
  EXPECT_EQ(state->status(now).state, JobPhase::kFailed);
  EXPECT_THAT(state->status(now).reason, HasSubstr("worker 0 failed: out of memory"));
  EXPECT_FAILS(state->leave(now, {.member = 4711}), StaleView, "not a member");
}

TEST_F(JobDecisionsTest, WorkIsLeasedOnceAndAgainIfItsHolderDies) {
  start_workers(2);
  cluster::Plan plan = elastic_plan();
  plan.leased = true;
  state->set_plan(now, plan);
  const cluster::UnitRange first = state->lease(now, {.member = 1, .view = 1}).range;
  const cluster::UnitRange second = state->lease(now, {.member = 2, .view = 1}).range;
  EXPECT_GT(first.count, 0);
  EXPECT_EQ(second.first, first.first + first.count);
  EXPECT_FAILS(state->lease(now, {.member = 1, .view = 7}), StaleView, "view 1");
  lose(2);
  EXPECT_EQ(state->lease(now, {.member = 1, .view = 1, .finished = {first}, .more = false}).finished, first.count);
  join(Role::kWorker, 0, {.member = 1, .view = 1});
  EXPECT_EQ(state->lease(now, {.member = 1, .view = 2}).range.first, second.first);
}

TEST_F(JobDecisionsTest, ScalingDownReleasesWaitingWorkers) {
  job({.workers = 2, .servers = 0});
  RecordingSession& worker = join_worker(1);
  state->scale(now, {.workers = 1});
  EXPECT_TRUE(worker.take<cluster::JoinReply>().over);
  EXPECT_EQ(state->status(now).wanted_workers, 1);
}

TEST_F(JobDecisionsTest, ScalingIsRefusedWithoutServersOrElasticity) {
  start_workers(1);
  EXPECT_FAILS(state->scale(now, {.servers = 2}), InvalidArgument, "no parameter servers");
  cluster::Plan fixed = elastic_plan();
  fixed.elastic = false;
  state->set_plan(now, fixed);
  EXPECT_FAILS(state->scale(now, {.workers = 2}), InvalidArgument, "not elastic");
}

TEST_F(JobDecisionsTest, SuccessorContinuesFromTheSavedState) {
  start_workers(2);
  state->set_plan(now, elastic_plan());
  state->stop({.reason = "enough"});
  const std::string text = saved;
  job({.workers = 2, .servers = 0}, {.saved = text});
  const auto status = state->status(now);
  EXPECT_EQ(status.state, JobPhase::kRunning);
  EXPECT_EQ(status.view, 1);
  EXPECT_EQ(status.plan, elastic_plan());
  EXPECT_TRUE(beat(2).stop);
  EXPECT_FALSE(beat(2).expelled);
}

TEST_F(JobDecisionsTest, NothingIsDecidedOnceAnotherMasterLeads) {
  job({.workers = 1, .servers = 0}, {.leading = [] { return false; }});
  RecordingSession& worker = join_worker(0);
  state->tick(now);
  EXPECT_EQ(worker.answers(), 0);
  EXPECT_EQ(state->status(now).view, 0);
}

}  // namespace
}  // namespace trireme::master
