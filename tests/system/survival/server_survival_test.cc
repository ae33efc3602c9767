// Whole jobs with parameter servers whose processes are killed, stopped and changed in number: nothing that was
// acknowledged is lost, nothing counts twice.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/store.h"
#include "tests/system/survival/disturbed_job.h"

namespace trireme::system_test {
namespace {

using ::testing::Not;

/// In step.
class ServerSurvival : public DisturbedJob {
 protected:
  ServerSurvival() : DisturbedJob({"--strategy", "ps", "--checkpoint-every", "100"}) {}

  /// A process that takes part.
  pid_t worker(const Program& job, int slot) { return member(job, "run", slot, "servers_attached"); }
  pid_t server(const Program& job, int slot) {
    return wait_for_member(job.pid(), "server", slot, folder_ / "run", "shards_held");
  }
};

TEST_F(ServerSurvival, ContinuesAfterEveryRoleIsKilledInTurn) {
  if (!store::sqlite_store_available()) GTEST_SKIP() << "built without SQLite";
  Program job(folder_, trireme(flags("run", "3", "5", {"--servers", "2"})));
  ASSERT_TRUE(reaches_view("run", 1));
  ASSERT_GT(worker(job, 2), 0) << job.err();
  ASSERT_TRUE(killed_and_replaced(job, "run", "worker", 1));
  ASSERT_TRUE(killed_and_replaced(job, "run", "server", 0));
  const pid_t first = master(job);
  ASSERT_GT(first, 0);
  ::kill(first, SIGKILL);
  ASSERT_TRUE(logs("run", "job_taken_over"));
  ASSERT_TRUE(killed_and_replaced(job, "run", "server", 1));
  ASSERT_TRUE(killed_and_replaced(job, "run", "worker", 0));  // the chief
  EXPECT_THAT(master_log("run"), Not(HasEvent("shards_lost")));
  expect_undisturbed(stopped(job));
}

TEST_F(ServerSurvival, OnlyServerKilled_ResumesFromACheckpoint) {
  Program job(folder_, trireme(flags("run", "2")));
  ASSERT_GE(checkpointed("run", 100), 100u);
  ASSERT_TRUE(killed_and_replaced(job, "run", "server", 0));
  EXPECT_THAT(master_log("run"), HasEvent("member_lost", {{"member", "server 0"}, {"cause", "died"}}));
  expect_undisturbed(stopped(job));
  EXPECT_THAT(log("run", "worker-0"), HasEvent("resumed_from_checkpoint"));
}

TEST_F(ServerSurvival, OnlyServerKilled_ADamagedCheckpointIsPassedOver) {
  Program job(folder_, trireme(flags("run", "2", "30")));
  const Step newest = checkpointed("run", 200);
  ASSERT_GE(newest, 200u);
  const Step before = step_before("run", newest);
  damage_checkpoint("run", fmt::format("step-{:09}", newest));
  ASSERT_TRUE(killed_and_replaced(job, "run", "server", 0));
  expect_undisturbed(stopped(job));
  EXPECT_THAT(log("run", "worker-0"), HasEvent("checkpoint_unusable", {{"step", newest}}));
  EXPECT_THAT(log("run", "worker-0"), HasEvent("resumed_from_checkpoint", {{"step", before}}));
}

TEST_F(ServerSurvival, OnlyServerKilledBeforeTheFirstCheckpoint_Continues) {
  Program job(folder_, trireme(flags("run", "2")));
  ASSERT_GT(worker(job, 1), 0) << job.err();
  ASSERT_TRUE(killed_and_replaced(job, "run", "server", 0));
  expect_undisturbed(stopped(job));
}

TEST_F(ServerSurvival, ContinuesAfterAServerAndTheMasterAreKilledTogether) {
  if (!store::sqlite_store_available()) GTEST_SKIP() << "built without SQLite";
  Program job(folder_, trireme(flags("run", "2", "5", {"--servers", "2"})));
  ASSERT_GT(worker(job, 1), 0) << job.err();
  const pid_t first = master(job);
  ASSERT_GT(first, 0);
  ::kill(first, SIGKILL);
  ASSERT_TRUE(killed_and_replaced(job, "run", "server", 0));
  EXPECT_LE(views("run"), 4u) << "no views are formed with a server that nobody has heard of";
  expect_undisturbed(stopped(job));
}

TEST_F(ServerSurvival, ContinuesAfterLauncherAndMasterAreSuspended) {
  if (!store::sqlite_store_available()) GTEST_SKIP() << "built without SQLite";
  Program job(folder_, trireme(flags("run", "2", "5", {"--servers", "2", "--trace-steps"})));
  ASSERT_GT(worker(job, 1), 0) << job.err();
  const pid_t stopped_one = master(job);
  job.send(SIGSTOP);  // it would replace a master that hangs
  ::kill(stopped_one, SIGSTOP);
  // Longer than it takes the others to look for another one, and than the 3 s of silence after which a member is given
  // up: a step takes 5 ms at least.
  ASSERT_TRUE(logs("run", "master_lost", "worker-1"));
  ASSERT_TRUE(advances("run", 800));
  ::kill(stopped_one, SIGCONT);
  job.send(SIGCONT);
  ASSERT_TRUE(logs("run", "master_was_suspended"));
  ASSERT_TRUE(killed_and_replaced(job, "run", "worker", 1));  // it is in charge again
  EXPECT_LE(views("run"), 3u) << "nobody was given up meanwhile";
  EXPECT_FALSE(is_gone(stopped_one)) << "an answer that could not be read in time is no silence";
  expect_undisturbed(stopped(job));
}

TEST_F(ServerSurvival, ContinuesAfterAServerIsSuspended) {
  Program job(folder_, trireme(flags("run", "2", "5", {"--servers", "2"})));
  ASSERT_GT(worker(job, 1), 0) << job.err();
  const pid_t victim = server(job, 1);
  ::kill(victim, SIGSTOP);
  ASSERT_TRUE(reaches_view("run", 2));
  EXPECT_THAT(master_log("run"),
              HasEvent("member_lost", {{"member", "server 1"}, {"pid", victim}, {"cause", "hangs"}}));
  ::kill(victim, SIGCONT);  // what it holds is old: it begins anew
  ASSERT_TRUE(reaches_view("run", 4));
  EXPECT_FALSE(is_gone(victim));
  EXPECT_THAT(log("run", "server-1"), HasEvent("server_rejoining"));
  expect_undisturbed(stopped(job));
}

TEST_F(ServerSurvival, OnlyServerSuspended_KeepsItsShards) {
  Program job(folder_, trireme(flags("run", "2")));
  ASSERT_GT(worker(job, 1), 0) << job.err();
  const pid_t victim = server(job, 0);
  ::kill(victim, SIGSTOP);
  ASSERT_TRUE(logs("run", {"member_lost", {{"member", "server 0"}, {"cause", "hangs"}}}));
  ::kill(victim, SIGCONT);  // nobody else could take over what it holds
  ASSERT_TRUE(reaches_view("run", 2));
  EXPECT_THAT(master_log("run"), HasEvent("server_readmitted"));
  EXPECT_THAT(master_log("run"), Not(HasEvent("shards_lost")));
  expect_undisturbed(stopped(job));
}

TEST_F(ServerSurvival, ScalesServersUpAndDown) {
  Program job(folder_, trireme(flags("run", "2", "5", {"--servers", "2"})));
  ASSERT_GT(worker(job, 1), 0) << job.err();
  ASSERT_TRUE(scale("run", {"--servers", "3"}));
  ASSERT_TRUE(logs("run", {"view_formed", {{"servers", 3}}}));
  const pid_t third = server(job, 2);
  ASSERT_GT(third, 0);
  ASSERT_TRUE(scale("run", {"--servers", "1"}));
  ASSERT_TRUE(eventually([&] { return is_gone(third); })) << log("run", "server-2");
  EXPECT_THAT(log("run", "server-2"), HasEvent("server_released"));
  expect_undisturbed(stopped(job));
  EXPECT_THAT(master_log("run"), Not(HasEvent("shards_lost")));
}

TEST_F(ServerSurvival, ScalesWorkersUpAndDown) {
  Program job(folder_, trireme(flags("run", "2")));
  ASSERT_GT(worker(job, 1), 0) << job.err();
  for (const char* workers : {"4", "1", "3"}) {
    ASSERT_TRUE(scale("run", {workers}));
    ASSERT_TRUE(logs("run", {"view_formed", {{"workers", workers}}}));
  }
  expect_undisturbed(stopped(job));
}

TEST_F(ServerSurvival, ResumesAfterAllProcessesAreKilled) {
  {
    Program job(folder_, trireme(flags("run", "2", "5", {"--servers", "2"})));
    ASSERT_GE(checkpointed("run", 200), 200u);
    const std::vector<pid_t> all = descendants(job.pid());
    job.send(SIGKILL);
    job.wait();
    for (const pid_t pid : all) EXPECT_TRUE(eventually([&] { return is_gone(pid); }));
  }
  std::filesystem::copy(folder_ / "run", folder_ / "other", std::filesystem::copy_options::recursive);
  const auto resume = [&](const std::string& run, const Flags& as) {
    Flags command{"resume", (folder_ / run).string(), "--json", "--workers", "3", "--step-ms", "0", "--steps", "600"};
    command.insert(command.end(), as.begin(), as.end());
    return run_trireme(folder_, command);
  };
  expect_undisturbed(resume("run", {"--servers", "3"}));
  expect_undisturbed(resume("other", {"--strategy", "allreduce"}));
}

/// Out of step: the master leases the work.
class AsyncSurvival : public DisturbedJob {
 protected:
  AsyncSurvival() : DisturbedJob({"--strategy", "ps", "--consistency", "asp", "--checkpoint-every", "0"}) {}
};

TEST_F(AsyncSurvival, MasterSuspended_NoLeaseIsLostAndTheJobEnds) {
  if (!store::sqlite_store_available()) GTEST_SKIP() << "built without SQLite";
  Program job(folder_, trireme(flags("run", "2", "5", {"--trace-steps"})));
  ASSERT_GT(member(job, "run", 1, "servers_attached"), 0) << job.err();
  const pid_t suspended = master(job);
  ::kill(suspended, SIGSTOP);
  for (const char* process : {"worker-0", "worker-1"}) ASSERT_TRUE(logs("run", "master_lost", process));
  ::kill(suspended, SIGCONT);  // requests that nobody waits for any more are still in its buffers
  ASSERT_TRUE(advances("run", 50));
  const Outcome outcome = stopped(job);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

}  // namespace
}  // namespace trireme::system_test
