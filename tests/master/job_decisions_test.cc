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
    log.save = [this](const SavedText& changes) {
      if (store_fails) throw IoError("the disk is full");
      saved.apply(changes);
      writes.push_back(changes);
    };
    state = std::make_unique<JobState>(
        MasterOptions{.service = {}, .shape = shape, .hang_after = hang_after, .log_entry = log}, now);
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

  /// Members 1 and 2 are servers with replicas of each other's shards, 3 is a worker; in view 1.
  void start_servers() {
    job({.workers = 1, .servers = 2, .replicas = 1});
    join(Role::kServer, 0);
    join(Role::kServer, 1);
    join_worker(0);
    state->set_plan(now, elastic_plan());
  }

  cluster::HeartbeatReply beat(cluster::MemberId member) { return state->heartbeat(now, member, {.member = member}); }

  /// The connection through which `member` joined, has ended: the first ones have the members' numbers.
  void lose(cluster::MemberId member) {
    state->tick(now);
    state->disconnected(now, member);
  }

  /// Two asynchronous workers in view 1.
  void start_leased() {
    start_workers(2);
    cluster::Plan plan = elastic_plan();
    plan.leased = true;
    state->set_plan(now, plan);
  }

  /// Member 1 asks for work until there is none, and finishes it; its requests are numbered from `number` on. Returns
  /// the last answer.
  cluster::LeaseReply finish_all(std::uint64_t number) {
    cluster::LeaseRequest request{.member = 1, .view = 1};
    for (;;) {
      request.number = number++;
      const cluster::LeaseReply reply = state->lease(now, request);
      if (reply.range.count == 0) return reply;
      request.finished = {reply.range};
    }
  }

  static cluster::Plan elastic_plan() { return {.steps = 10, .batch = 8, .lanes = 4, .elastic = true}; }

  const Deadline::Clock::time_point now = Deadline::Clock::now();
  std::chrono::milliseconds hang_after = 1h;
  bool store_fails = false;
  SavedText saved;
  std::vector<SavedText> writes;
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
  EXPECT_NE(saved.job, "");
}

TEST_F(JobDecisionsTest, StatusSaysThatTheStateCannotBeSaved) {
  start_workers(2);
  state->set_plan(now, elastic_plan());
  store_fails = true;
  lose(2);
  RecordingSession& survivor = join(Role::kWorker, 0, {.member = 1, .view = 1, .reason = "worker 1 is gone"});
  EXPECT_EQ(survivor.answers(), 0);
  for (const auto later : {0h, 24h}) {
    state->tick(now + later);
    EXPECT_EQ(state->status(now + later).state, JobPhase::kWaiting);
    EXPECT_THAT(state->status(now + later).reason, HasSubstr("view 2 cannot begin; its state cannot be saved"));
    EXPECT_THAT(state->status(now + later).reason, HasSubstr("the disk is full"));
  }
  store_fails = false;
  state->tick(now + 24h);
  EXPECT_EQ(survivor.take<cluster::JoinReply>().view.view, 2);
  EXPECT_EQ(state->status(now + 24h).state, JobPhase::kRunning);
  EXPECT_THAT(state->status(now + 24h).reason, ::testing::Not(HasSubstr("the disk is full")));
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
  EXPECT_THAT(slots_of(state->status(now).others), ElementsAre(1));
  EXPECT_EQ(beat(1).regroup, cluster::Regroup::kNo) << "no view with the same two";
  state->tick(now + 30min);
  const auto later = state->heartbeat(now + 30min, 1, {.member = 1});
  EXPECT_EQ(later.regroup, cluster::Regroup::kNo) << "time alone repairs nothing";
  ASSERT_EQ(later.apart.size(), 1u);
  EXPECT_EQ(later.apart[0].id, 2) << "it is asked to try whether it reaches the other one";
  state->heartbeat(now + 30min, 2, {.member = 2, .reached = {1}});
  const auto healed = state->heartbeat(now + 30min, 1, {.member = 1});
  EXPECT_NE(healed.regroup, cluster::Regroup::kNo);
  EXPECT_EQ(healed.reason, "worker 1 wants to take part");
  EXPECT_TRUE(healed.apart.empty());
}

/// Members 1 and 2 are servers 0 and 1, with copies for each other; 3, 4 and 5 are workers 0, 1 and 2.
struct ApartServersTest : JobDecisionsTest {
  ApartServersTest() {
    job({.workers = 3, .servers = 2, .replicas = 1});
    for (const std::uint32_t slot : {0u, 1u}) join(Role::kServer, slot);
    for (const std::uint32_t slot : {0u, 1u, 2u}) join_worker(slot);
    state->set_plan(now, elastic_plan());
  }

  RecordingSession& regroup(std::uint32_t slot, View view, std::vector<cluster::MemberId> unreachable = {}) {
    return join(Role::kWorker, slot, {.member = 3 + slot, .view = view, .unreachable = std::move(unreachable)});
  }

  /// All three ask for the view after `view`; what the last one got.
  cluster::ViewInfo regroup_all(View view, const std::vector<std::vector<cluster::MemberId>>& unreachable) {
    for (const std::uint32_t slot : {0u, 1u}) regroup(slot, view, unreachable[slot]);
    return regroup(2, view, unreachable[2]).take<cluster::JoinReply>().view;
  }
};

TEST_F(ApartServersTest, AWorkerThatDoesNotReachAServerIsLeftOut) {
  const auto view = regroup_all(1, {{1}, {}, {}});
  EXPECT_EQ(view.servers.size(), 2u);
  ASSERT_EQ(view.workers.size(), 2u);
  EXPECT_EQ(view.workers[0].slot, 1);
  EXPECT_THAT(state->status(now).reason,
              HasSubstr("worker 0 is left out: it and server 0 reach the master, but not each other"));
  state->heartbeat(now + 5s, 1, {.member = 1, .reached = {3}});
  EXPECT_EQ(state->heartbeat(now + 5s, 4, {.member = 4}).reason, "worker 0 wants to take part");
}

TEST_F(ApartServersTest, AServerThatTwoWorkersDoNotReachIsGivenUpUntilTheyDo) {
  const auto view = regroup_all(1, {{1}, {}, {1}});
  EXPECT_EQ(view.workers.size(), 3u);
  ASSERT_EQ(view.servers.size(), 1u);
  EXPECT_EQ(view.servers[0].slot, 1);
  for (const cluster::ShardPlace& place : view.shards) EXPECT_EQ(place.born, 1) << "nothing was lost";
  EXPECT_THAT(state->status(now).reason,
              HasSubstr("server 0 is left out: it and workers 0, 2 reach the master, but not each other"));
  EXPECT_TRUE(beat(1).expelled);
  RecordingSession& back = join(Role::kServer, 0, {.member = 1});
  EXPECT_EQ(beat(4).regroup, cluster::Regroup::kNo) << "it waits";
  EXPECT_EQ(back.answers(), 0);
  state->heartbeat(now + 5s, 3, {.member = 3, .reached = {6}});
  EXPECT_EQ(state->heartbeat(now + 5s, 4, {.member = 4}).regroup, cluster::Regroup::kNo) << "one still does not";
  state->heartbeat(now + 5s, 5, {.member = 5, .reached = {6}});
  EXPECT_EQ(state->heartbeat(now + 5s, 4, {.member = 4}).reason, "server 0 wants to take part");
}

TEST_F(ApartServersTest, AServerThatIsGivenUpIsNotTakenBackBeforeTheNextView) {
  regroup(0, 1, {1});
  regroup(1, 1, {1});
  EXPECT_TRUE(beat(1).expelled);
  RecordingSession& back = join(Role::kServer, 0, {.member = 1});
  EXPECT_EQ(regroup(2, 1).take<cluster::JoinReply>().view.servers.size(), 1u);
  EXPECT_EQ(back.answers(), 0);
}

TEST_F(ApartServersTest, OfTwoServersThatDoNotReachEachOtherOneIsGivenUpOnce) {
  for (const cluster::MemberId from : {1, 2}) {
    cluster::Heartbeat beat{.member = from, .shards = {.view = 1}};
    for (std::uint32_t shard = 0; shard < 2 * cluster::kShardsPerServer; ++shard) {
      beat.shards.reports.push_back({.shard = shard, .replica = 3 - from, .failure = "silence", .silent = true});
    }
    state->heartbeat(now, from, beat);
  }
  EXPECT_FALSE(beat(1).expelled);
  EXPECT_TRUE(beat(2).expelled);
  join(Role::kServer, 1, {.member = 2});
  const auto view = regroup_all(1, {{}, {}, {}});
  ASSERT_EQ(view.servers.size(), 1u);
  EXPECT_EQ(view.servers[0].slot, 0);
  EXPECT_THAT(state->status(now).reason,
              HasSubstr("server 1 is left out: it and server 0 reach the master, but not each other"));
  EXPECT_EQ(beat(4).regroup, cluster::Regroup::kNo) << "no view with the same two";
  state->heartbeat(now + 5s, 1, {.member = 1, .reached = {6}});
  EXPECT_EQ(state->heartbeat(now + 5s, 4, {.member = 4}).reason, "server 1 wants to take part");
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
  EXPECT_THAT(slots_of(state->status(now).others), ElementsAre(1));
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

TEST_F(JobDecisionsTest, FailureOfAMemberThatWasGivenUpDoesNotCount) {
  start_workers(2);
  state->set_plan(now, elastic_plan());
  lose(2);
  EXPECT_FAILS(state->leave(now, {.member = 2, .failure = "lost the others"}), StaleView, "worker 1",
               "no longer a member", "lost the others");
  EXPECT_EQ(state->status(now).state, JobPhase::kRunning);
}

TEST_F(JobDecisionsTest, WorkIsLeasedOnceAndAgainIfItsHolderDies) {
  start_leased();
  const cluster::UnitRange first = state->lease(now, {.member = 1, .view = 1, .number = 1}).range;
  const cluster::UnitRange second = state->lease(now, {.member = 2, .view = 1, .number = 1}).range;
  EXPECT_GT(first.count, 0);
  EXPECT_EQ(second.first, first.first + first.count);
  EXPECT_FAILS(state->lease(now, {.member = 1, .view = 7, .number = 2}), StaleView, "view 1");
  lose(2);
  EXPECT_EQ(state->lease(now, {.member = 1, .view = 1, .number = 2, .finished = {first}, .more = false}).finished,
            first.count);
  join(Role::kWorker, 0, {.member = 1, .view = 1});
  EXPECT_EQ(state->lease(now, {.member = 1, .view = 2, .number = 3}).range.first, second.first);
}

TEST_F(JobDecisionsTest, RequestForWorkThatArrivesTwiceIsAnsweredOnce) {
  start_leased();
  const auto first = state->lease(now, {.member = 1, .view = 1, .number = 1});
  EXPECT_EQ(state->lease(now, {.member = 1, .view = 1, .number = 1}).range, first.range) << "the answer was lost";
  state->lease(now, {.member = 1, .view = 1, .number = 2, .finished = {first.range}});
  EXPECT_FAILS(state->lease(now, {.member = 1, .view = 1, .number = 1}), StaleView, "overtaken");
  EXPECT_EQ(finish_all(3).finished, state->status(now).plan.steps * state->status(now).plan.lanes);
}

TEST_F(JobDecisionsTest, LeaseThatItsWorkerNeverGotIsGivenOutAgain) {
  start_leased();
  const auto lost = state->lease(now, {.member = 1, .view = 1, .number = 1}).range;
  const auto next = state->lease(now, {.member = 1, .view = 1, .number = 2}).range;
  EXPECT_EQ(next, lost) << "it holds nothing";
  EXPECT_TRUE(finish_all(3).over);
}

TEST_F(JobDecisionsTest, WorkIsNotLeasedToAMemberThatWaitsForAView) {
  start_leased();
  join(Role::kWorker, 1, {.member = 2, .view = 1});
  EXPECT_FAILS(state->lease(now, {.member = 2, .view = 1, .number = 1}), StaleView, "rejoin");
}

TEST_F(JobDecisionsTest, LeasesAreSavedApartFromTheRestAndOnlyIfTheyChanged) {
  start_leased();
  state->tick(now);
  writes.clear();
  const auto range = state->lease(now, {.member = 1, .view = 1, .number = 1}).range;
  state->tick(now);
  ASSERT_EQ(writes.size(), 1);
  EXPECT_EQ(writes[0].job, "");
  EXPECT_THAT(writes[0].leases, HasSubstr(nlohmann::json(range).dump()));
  state->lease(now, {.member = 1, .view = 1, .number = 2, .held = {range}, .more = false});
  state->tick(now);
  EXPECT_EQ(writes.size(), 1) << "nothing has changed";
  state->stop({.reason = "enough"});
  EXPECT_NE(writes.back().job, "");
}

TEST_F(JobDecisionsTest, AWorkerLearnsWhichOfItsReportsASuccessorKnows) {
  start_leased();
  const auto first = state->lease(now, {.member = 1, .view = 1, .number = 1});
  EXPECT_EQ(first.saved, 0u);
  store_fails = true;
  state->lease(now, {.member = 1, .view = 1, .number = 2, .finished = {first.range}});
  state->tick(now);
  EXPECT_EQ(state->lease(now, {.member = 1, .view = 1, .number = 3}).saved, 0u) << "it could not be saved";
  store_fails = false;
  state->tick(now);
  state->lease(now, {.member = 1, .view = 1, .number = 4, .finished = {first.range}});  // told twice, counts once
  state->tick(now);
  const auto last = state->lease(now, {.member = 1, .view = 1, .number = 5});
  EXPECT_EQ(last.saved, 4u);
  EXPECT_EQ(last.finished, first.range.count);
}

TEST_F(JobDecisionsTest, EverythingIsSavedAgainAfterAFailure) {
  start_leased();
  store_fails = true;
  state->stop({.reason = "enough"});
  store_fails = false;
  writes.clear();
  state->tick(now);
  ASSERT_EQ(writes.size(), 1);
  EXPECT_NE(writes[0].job, "");
  EXPECT_NE(writes[0].leases, "") << "nobody knows what of it arrived";
}

TEST_F(JobDecisionsTest, ViewThatLosesAMemberWhileItIsSavedIsNotGivenOut) {
  std::vector<SavedText> started;
  state = std::make_unique<JobState>(
      MasterOptions{
          .service = {}, .shape = {.workers = 2, .servers = 0}, .log_entry = {.save = [](const SavedText&) {}}},
      now, [&](const SavedText& changes) { started.push_back(changes); });
  RecordingSession& first = join_worker(0);
  join_worker(1);
  ASSERT_EQ(started.size(), 1) << "the first view is on its way to the store";
  state->disconnected(now, 2);
  state->saved(now, {.saved = true});
  EXPECT_EQ(first.answers(), 0);
  ASSERT_EQ(started.size(), 2) << "the store learns that there is no view yet";
  state->saved(now, {.saved = true});
  RecordingSession& again = join_worker(1);
  ASSERT_EQ(started.size(), 3);
  EXPECT_EQ(again.answers(), 0);
  state->saved(now, {.saved = true});
  EXPECT_EQ(first.take<cluster::JoinReply>().view.view, 1);
  EXPECT_EQ(again.take<cluster::JoinReply>().member, 3);
}

TEST_F(JobDecisionsTest, CopiesCountAsInSyncOnceASuccessorWouldKnow) {
  std::vector<SavedText> started;
  const auto settle = [&] {
    while (!std::exchange(started, {}).empty()) state->saved(now, {.saved = true});
  };
  state = std::make_unique<JobState>(MasterOptions{.service = {},
                                                   .shape = {.workers = 1, .servers = 2, .replicas = 1},
                                                   .hang_after = 1h,
                                                   .log_entry = {.save = [](const SavedText&) {}}},
                                     now, [&](const SavedText& changes) { started.push_back(changes); });
  join(Role::kServer, 0);
  join(Role::kServer, 1);
  join_worker(0);
  state->set_plan(now, elastic_plan());
  settle();
  state->disconnected(now, 1);
  join(Role::kWorker, 0, {.member = 3, .view = 1});
  settle();
  join(Role::kServer, 0);
  join(Role::kWorker, 0, {.member = 3, .view = 2});
  settle();
  ASSERT_EQ(state->status(now).copies_due, 2 * cluster::kShardsPerServer);
  cluster::Heartbeat beat{.member = 2, .shards = {.view = 3}};
  for (std::uint32_t shard = 0; shard < 2 * cluster::kShardsPerServer; ++shard) {
    beat.shards.reports.push_back({.shard = shard, .replica = 4, .in_sync = true});
  }
  state->heartbeat(now, 2, beat);
  EXPECT_GT(state->status(now).copies_due, 0);
  settle();
  EXPECT_EQ(state->status(now).copies_due, 0);
}

TEST_F(JobDecisionsTest, ServerThatComesBackBeforeTheNextViewKeepsItsShards) {
  job({.workers = 1, .servers = 1});
  join(Role::kServer, 0);
  join_worker(0);
  state->set_plan(now, elastic_plan());
  lose(1);
  EXPECT_TRUE(beat(1).expelled);
  RecordingSession& server = join(Role::kServer, 0, {.member = 1});
  RecordingSession& worker = join(Role::kWorker, 0, {.member = 2, .view = 1});
  EXPECT_EQ(server.take<cluster::JoinReply>().member, 1);
  const auto view = worker.take<cluster::JoinReply>().view;
  EXPECT_EQ(view.view, 2);
  for (const cluster::ShardPlace& place : view.shards) EXPECT_EQ(place, (cluster::ShardPlace{.primary = 1, .born = 1}));
}

/// As when one server dies and the network of the master is cut a moment later.
TEST_F(JobDecisionsTest, NoViewIsFormedWithoutTheLastCopiesWhileTheirServerMayComeBack) {
  start_servers();
  lose(1);  // it is dead; its replicas on the other one are in sync
  lose(2);  // cut off
  join(Role::kServer, 0);
  RecordingSession& worker = join(Role::kWorker, 0, {.member = 3, .view = 1});
  state->tick(now);
  EXPECT_EQ(worker.answers(), 0);
  EXPECT_THAT(state->status(now).reason, HasSubstr("waiting for server 1, which has the only copy"));
  join(Role::kServer, 1, {.member = 2});
  const auto view = worker.take<cluster::JoinReply>().view;
  for (const cluster::ShardPlace& place : view.shards) EXPECT_EQ(place.born, 1u) << "no shard was lost";
}

TEST_F(JobDecisionsTest, LastCopiesAreGivenUpWhenTheirServerStaysAway) {
  hang_after = 3s;
  start_servers();
  lose(1);
  lose(2);
  join(Role::kServer, 0);
  RecordingSession& worker = join(Role::kWorker, 0, {.member = 3, .view = 1});
  EXPECT_EQ(worker.answers(), 0);
  for (auto later = 0ms; later <= 3s; later += 500ms) state->tick(now + later);
  EXPECT_EQ(worker.answers(), 0);
  state->tick(now + 3s + 1ms);
  EXPECT_EQ(worker.take<cluster::JoinReply>().view.shards.at(0).born, 2u);
}

/// Without servers the workers of the last view have the newest parameters.
TEST_F(JobDecisionsTest, NobodyGoesOnWithoutTheLastWorkersWhileTheyMayComeBack) {
  job({.workers = 2, .servers = 0});
  join_worker(0);
  join_worker(1);
  state->set_plan(now, elastic_plan());
  lose(2);
  join(Role::kWorker, 0, {.member = 1, .view = 1});  // view 2: worker 0 alone
  RecordingSession& other = join_worker(1);
  lose(3);  // the connection of worker 0
  state->tick(now);
  EXPECT_EQ(other.answers(), 0);
  EXPECT_THAT(state->status(now).reason, HasSubstr("waiting for worker 0, which has the only copy"));
  join(Role::kWorker, 0, {.member = 1, .view = 2});
  EXPECT_EQ(other.take<cluster::JoinReply>().view.workers.size(), 2u);
}

TEST_F(JobDecisionsTest, ServerThatIsBackAndWaitsIsNotGivenUpForWhatItsPrimarySawBefore) {
  start_servers();
  lose(2);
  RecordingSession& server = join(Role::kServer, 1, {.member = 2});
  cluster::Heartbeat primary{.member = 1, .shards = {.view = 1}};
  primary.shards.reports.push_back({.shard = 0, .replica = 2, .failure = "the connection to it has ended"});
  state->heartbeat(now, 1, primary);
  RecordingSession& worker = join(Role::kWorker, 0, {.member = 3, .view = 1});
  EXPECT_EQ(worker.take<cluster::JoinReply>().view.servers.size(), 2u);
  EXPECT_EQ(server.take<cluster::JoinReply>().member, 2) << "it got its answer";
}

TEST_F(JobDecisionsTest, ServerThatComesBackAfterTheNextViewIsANewMember) {
  start_servers();
  lose(1);
  join(Role::kWorker, 0, {.member = 3, .view = 1});
  RecordingSession& server = join(Role::kServer, 0, {.member = 1});
  join(Role::kWorker, 0, {.member = 3, .view = 2});
  EXPECT_EQ(server.take<cluster::JoinReply>().member, 4);
}

TEST_F(JobDecisionsTest, LaunchIsRandomAndTheSameForAllMembersAndForASuccessor) {
  job({.workers = 2, .servers = 0});
  RecordingSession& first = join_worker(0);
  RecordingSession& second = join_worker(1);
  const std::string launch = first.take<cluster::JoinReply>().launch;
  EXPECT_NE(launch, "");
  EXPECT_EQ(second.take<cluster::JoinReply>().launch, launch);

  job({.workers = 2, .servers = 0}, {.saved = SavedText(saved)});
  state->set_plan(now, elastic_plan());
  for (const cluster::MemberId member : {1, 2}) beat(member);
  join(Role::kWorker, 0, {.member = 1, .view = 1});
  EXPECT_EQ(join(Role::kWorker, 1, {.member = 2, .view = 1}).take<cluster::JoinReply>().launch, launch);

  job({.workers = 1, .servers = 0});
  EXPECT_NE(join_worker(0).take<cluster::JoinReply>().launch, launch) << "another launch, perhaps of the same run";
}

TEST_F(JobDecisionsTest, ScalingDownReleasesWaitingWorkers) {
  start_workers(1);
  state->set_plan(now, elastic_plan());
  state->scale(now, {.workers = 2});
  RecordingSession& worker = join_worker(1);
  state->scale(now, {.workers = 1});
  EXPECT_TRUE(worker.take<cluster::JoinReply>().over);
  EXPECT_EQ(state->status(now).wanted_workers, 1);
}

TEST_F(JobDecisionsTest, ScalingIsRefusedUnlessWorkersMayComeAndGo) {
  start_workers(2);
  EXPECT_FAILS(state->scale(now, {.workers = 3}), InvalidArgument, "cannot be scaled (yet)", "dist::elastic");
  state->set_plan(now, {.lanes = 2, .strategy = "own loop"});
  for (const std::uint32_t workers : {1u, 3u}) {
    EXPECT_FAILS(state->scale(now, {.workers = workers}), InvalidArgument, "a loop of its own", "the 2 workers");
  }
  EXPECT_EQ(state->status(now).wanted_workers, 2);
  state->set_plan(now, elastic_plan());
  state->scale(now, {.workers = 3});
  EXPECT_EQ(state->status(now).wanted_workers, 3);
}

TEST_F(JobDecisionsTest, ScalingIsLimitedToWhatIsOfUse) {
  start_workers(1);
  cluster::Plan plan = elastic_plan();
  plan.lanes = 4;
  state->set_plan(now, plan);
  EXPECT_FAILS(state->scale(now, {.workers = 99}), InvalidArgument, "4 lanes", "use 6 at most");
  EXPECT_FAILS(state->scale(now, {.workers = 7}), InvalidArgument, "use 6 at most");
  EXPECT_FAILS(state->scale(now, {.servers = 2}), InvalidArgument, "no parameter servers");
  EXPECT_EQ(state->status(now).wanted_workers, 1);
  state->scale(now, {.workers = 6});
  EXPECT_EQ(state->status(now).wanted_workers, 6);
}

TEST_F(JobDecisionsTest, SuccessorContinuesFromTheSavedState) {
  start_workers(2);
  state->set_plan(now, elastic_plan());
  state->stop({.reason = "enough"});
  job({.workers = 2, .servers = 0}, {.saved = SavedText(saved)});
  const auto status = state->status(now);
  EXPECT_EQ(status.state, JobPhase::kRunning);
  EXPECT_EQ(status.view, 1);
  EXPECT_EQ(status.plan, elastic_plan());
  EXPECT_TRUE(beat(2).stop);
  EXPECT_FALSE(beat(2).expelled);
}

TEST_F(JobDecisionsTest, SuccessorOfAMasterThatWaitedForMembersWaitsToo) {
  job({.workers = 2, .min_workers = 2, .servers = 0});
  for (const std::uint32_t slot : {0, 1}) join_worker(slot);
  state->set_plan(now, elastic_plan());
  lose(2);
  join(Role::kWorker, 0, {.member = 1, .view = 1, .reason = "worker 1 is gone"});
  ASSERT_EQ(state->status(now).state, JobPhase::kWaiting);
  state->stop({"somebody asks, and the state is saved"});
  job({.workers = 2, .min_workers = 2, .servers = 0}, {.saved = saved});
  state->tick(now);
  EXPECT_EQ(state->status(now).state, JobPhase::kWaiting) << state->status(now).reason;
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
