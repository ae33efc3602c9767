// Whole jobs whose processes are killed, stopped and changed in number: they go on by themselves, and end with the
// parameters of a run in which nothing happened.

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/list.h"
#include "store/store.h"
#include "tests/system/survival/disturbed_job.h"

namespace trireme::system_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Among equals.
class Survival : public DisturbedJob {
 protected:
  Survival() : DisturbedJob({"--strategy", "allreduce", "--checkpoint-every", "50"}) {}
};

TEST_F(Survival, ContinuesAfterWorkersAreKilledInTurn) {
  Program job(folder_, trireme(flags("run", "4")));
  ASSERT_TRUE(reaches_view("run", 1));
  int view = 1;
  for (const int slot : {2, 0, 3}) {  // 0 is the chief
    const pid_t worker = member(job, "run", slot, "group_formed");
    ASSERT_GT(worker, 0) << job.err();
    ::kill(worker, SIGKILL);
    ASSERT_TRUE(reaches_view("run", view + 1));  // the others go on
    ASSERT_TRUE(reaches_view("run", view + 2));  // it is back
    view += 2;
  }
  expect_undisturbed(stopped(job));
}

TEST_F(Survival, ContinuesAfterAWorkerIsSuspended) {
  Program job(folder_, trireme(flags("run", "2")));
  const pid_t worker = member(job, "run", 1, "group_formed");
  ASSERT_GT(worker, 0) << job.err();
  ::kill(worker, SIGSTOP);
  ASSERT_TRUE(reaches_view("run", 2));
  EXPECT_THAT(master_log("run"),
              HasEvent("member_lost", {{"member", "worker 1"}, {"pid", worker}, {"cause", "hangs"}}));
  ::kill(worker, SIGCONT);  // it learns that it was given up, and comes back
  ASSERT_TRUE(reaches_view("run", 3));
  EXPECT_FALSE(is_gone(worker));
  expect_undisturbed(stopped(job));
}

TEST_F(Survival, ScalesWorkersUpAndDown) {
  Program job(folder_, trireme(flags("run", "2")));
  ASSERT_TRUE(reaches_view("run", 1));
  ASSERT_GT(member(job, "run", 0, "group_formed"), 0);
  for (const char* workers : {"4", "1", "3"}) {
    ASSERT_TRUE(scale("run", {workers}));
    ASSERT_TRUE(logs("run", {"view_formed", {{"workers", workers}}}));
  }
  expect_undisturbed(stopped(job));
}

TEST_F(Survival, LearnersCatchUpWhileTheOthersTrain) {
  // A link on which the state takes several steps.
  Program job(folder_, trireme(flags("run", "2", "5", {"--throttle", "200mbit"})));
  ASSERT_GT(member(job, "run", 1, "group_formed"), 0);
  ASSERT_TRUE(scale("run", {"3"}));
  ASSERT_GT(member(job, "run", 2, "group_formed"), 0);
  const std::string sources = log("run", "worker-0") + log("run", "worker-1");
  const auto caught_up_from = first_event(sources, "learner_accepted");
  const auto came_in_at = first_event(log("run", "worker-2"), "group_formed");
  ASSERT_TRUE(caught_up_from) << sources;
  ASSERT_TRUE(came_in_at) << log("run", "worker-2");
  EXPECT_GT(caught_up_from->number("step"), 0u);
  EXPECT_GT(came_in_at->number("step"), caught_up_from->number("step"));
  EXPECT_THAT(log("run", "worker-2"), Not(HasEvent("state_copied")));
  EXPECT_EQ(run_trireme(folder_, {"stop", (folder_ / "run").string()}).status, 0);
  expect_undisturbed(job.wait());
}

TEST_F(Survival, ContinuesAfterTheMasterIsKilled) {
  if (!store::sqlite_store_available()) GTEST_SKIP() << "built without SQLite";
  Program job(folder_, trireme(flags("run", "2")));
  ASSERT_GT(member(job, "run", 1, "group_formed"), 0);
  const pid_t first = master(job);
  ASSERT_GT(first, 0);
  ::kill(first, SIGKILL);
  ASSERT_TRUE(logs("run", "job_taken_over"));
  ASSERT_TRUE(logs("run", "master_found", "worker-1"));
  ASSERT_TRUE(killed_and_replaced(job, "run", "worker", 1));  // it is in charge
  expect_undisturbed(stopped(job));
}

TEST_F(Survival, ContinuesAfterTheMasterHangs) {
  if (!store::sqlite_store_available()) GTEST_SKIP() << "built without SQLite";
  Program job(folder_, trireme(flags("run", "2", "5", {"--trace-steps"})));
  ASSERT_GT(member(job, "run", 1, "group_formed"), 0);
  const pid_t first = master(job);
  ASSERT_GT(first, 0);
  ::kill(first, SIGSTOP);
  ASSERT_TRUE(logs("run", "job_taken_over"));
  EXPECT_TRUE(is_gone(first));
  ASSERT_TRUE(logs("run", "master_found", "worker-1"));
  ASSERT_TRUE(advances("run", 20));
  EXPECT_EQ(views("run"), 1u) << "the training did not notice";
  ASSERT_TRUE(killed_and_replaced(job, "run", "worker", 1));  // it is in charge
  expect_undisturbed(stopped(job));
}

TEST_F(Survival, ARunThatGoesOnIsLeftAlone) {
  const std::string run = (folder_ / "run").string();
  Program job(folder_, trireme(flags("run", "1")));
  ASSERT_GT(member(job, "run", 0, "group_formed"), 0);
  const std::string who = "pid " + std::to_string(job.pid()) + " on ";
  const std::string secret = read_file(folder_ / "run/secret");
  Flags again = flags("run", "1", "5", {"--overwrite"});
  for (const Flags& second : {Flags{"resume", run}, again, Flags{"run", "--out", run, "--overwrite", "--", "true"},
                              Flags{"run", "--out", run, "--resume", "--", "true"}}) {
    const Outcome outcome = run_trireme(folder_, second);
    EXPECT_GT(outcome.status, 0) << second.front();
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("a run that is going on"), HasSubstr(who))) << second.front();
  }
  EXPECT_EQ(read_file(folder_ / "run/secret"), secret);
  EXPECT_FALSE(status("run").is_null());
  expect_undisturbed(stopped(job));
}

TEST_F(Survival, ResumesAfterAllProcessesAreKilled) {
  for (const std::size_t checkpoints : {1, 2}) {
    const std::string run = "run" + std::to_string(checkpoints);
    {
      Program job(folder_, trireme(flags(run, "2")));
      const auto complete = [&] { return checkpoint::list_checkpoints(folder_ / run / "checkpoints").size(); };
      ASSERT_TRUE(eventually([&] { return complete() > checkpoints; })) << job.err();
      const std::vector<pid_t> all = descendants(job.pid());
      job.send(SIGKILL);
      job.wait();
      for (const pid_t pid : all) EXPECT_TRUE(eventually([&] { return is_gone(pid); }));
    }
    expect_undisturbed(run_trireme(
        folder_, {"resume", (folder_ / run).string(), "--json", "--workers", "3", "--step-ms", "0", "--steps", "500"}));
    EXPECT_THAT(log(run, "worker-0"), HasEvent("resumed_from_checkpoint"));
  }
}

TEST_F(Survival, ResumesFromAnOlderCheckpointIfTheNewestIsDamaged) {
  const std::string run = (folder_ / "run").string();
  Flags first = flags("run", "2", "0", {"--keep-checkpoints", "0"});
  *std::ranges::find(first, "1000000") = "150";  // one every 50, if the one before is written by then; and at the end
  ASSERT_EQ(run_trireme(folder_, first).status, 0);
  const Step before = step_before("run", 150);
  damage_checkpoint("run", "step-000000150");
  const Flags again{"resume", run, "--json", "--step-ms", "0", "--steps", "175"};
  const Outcome outcome = run_trireme(folder_, again);
  EXPECT_THAT(outcome.err, HasSubstr("the checkpoint of step 150 is damaged"));
  EXPECT_THAT(log("run", "worker-0"), HasEvent("checkpoint_unusable", {{"step", 150}}));
  EXPECT_THAT(log("run", "worker-0"), HasEvent("resumed_from_checkpoint", {{"step", before}}));
  expect_undisturbed(outcome);
  if (!has_event(log("run", "worker-0"), {"checkpoint_skipped", {{"step", 150}}})) {
    EXPECT_EQ(run_trireme(folder_, {"ckpt", "verify", run, "--step", "150"}).status, 0) << "it was written again";
  }

  Flags back = again;
  back.insert(back.end(), {"--from", std::to_string(before)});
  const Outcome from_before = run_trireme(folder_, back);
  EXPECT_THAT(from_before.err, HasSubstr("step-000000150.aside"));
  EXPECT_THAT(log("run", "worker-0"), HasEvent("resumed_from_checkpoint", {{"step", before}}));
  expect_undisturbed(from_before);
  back.back() = "101";
  EXPECT_THAT(run_trireme(folder_, back).err, HasSubstr("no checkpoint of step 101"));
}

TEST_F(Survival, ARefusedResumeChangesNothing) {
  const std::string run = (folder_ / "run").string();
  Flags first = flags("run", "2", "0", {"--time-limit", "100"});
  *std::ranges::find(first, "1000000") = "20";
  const Outcome begun = run_trireme(folder_, first);
  ASSERT_EQ(begun.status, 0) << begun.err;
  const std::string config = read_file(folder_ / "run/config.toml");
  for (const Flags& flag : {Flags{"--batch", "32"},
                            {"--data", "synthetic"},
                            {"--optimizer", "sgd"},
                            {"--seed", "2"},
                            {"--lanes", "8"},
                            {"--model", "lenet"},
                            {"--out", "other"}}) {
    Flags refused{"resume", run, "--steps", "30"};
    refused.insert(refused.end(), flag.begin(), flag.end());
    const Outcome outcome = run_trireme(folder_, refused);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(flag.front())) << outcome.err;
    EXPECT_EQ(read_file(folder_ / "run/config.toml"), config) << flag.front();
  }
  for (const char* key : {"json", "time-limit", "out", "overwrite"}) {
    EXPECT_THAT(config, Not(HasSubstr(std::string(key) + "="))) << "of one launch";
  }
  const Outcome resumed = run_trireme(folder_, {"resume", run, "--steps", "30", "--batch", "16"});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("after 30 steps")) << "words: --json was the first launch's";
}

TEST_F(Survival, ACheckpointCarriesItsOwnScoreOrNone) {
  Flags all = flags("run", "2", "5", {"--keep-checkpoints", "0"});
  *std::ranges::find(all, "1000000") = "100";  // 640 images, 16 at a time: evaluated after 40, 80 and 100
  *std::next(std::ranges::find(all, "--checkpoint-every")) = "30";
  const Outcome outcome = run_trireme(folder_, all);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto entries = checkpoint::list_checkpoints(folder_ / "run/checkpoints");
  ASSERT_GE(entries.size(), 2u);
  for (const auto& entry : entries) {
    if (entry.step == 100) {
      EXPECT_EQ(entry.score, std::optional<double>(outcome.json().at("test_accuracy")));
    } else {
      EXPECT_EQ(entry.score, std::nullopt) << "step " << entry.step << " was not evaluated";
    }
  }
}

TEST_F(Survival, StopLeavesACompleteCheckpoint) {
  Program job(folder_, trireme(flags("run", "2")));
  ASSERT_GT(member(job, "run", 1, "group_formed"), 0);
  const std::vector<pid_t> all = descendants(job.pid());
  job.send(SIGTERM);
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const pid_t pid : all) EXPECT_TRUE(eventually([&] { return is_gone(pid); }));
  const auto newest = checkpoint::latest_complete(folder_ / "run" / "checkpoints");
  ASSERT_TRUE(newest) << outcome.err;
  EXPECT_EQ(checkpoint::Checkpoint::open(*newest).step(), outcome.json().value("steps", Step{0}));
  EXPECT_EQ(run_trireme(folder_, {"ckpt", "verify", newest->string()}).status, 0);
}

TEST_F(Survival, FailsBelowTheMinimumAfterTheTimeout) {
  Flags few = flags("run", "2:2");
  few.insert(few.end(), {"--restarts", "0", "--wait-for-workers", "1"});
  Program job(folder_, trireme(few));
  const pid_t worker = member(job, "run", 1, "group_formed");
  ASSERT_GT(worker, 0) << job.err();
  ::kill(worker, SIGKILL);
  const Outcome outcome = job.wait();
  EXPECT_GT(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("1 of at least 2 workers"));
}

TEST_F(Survival, BalanceMovesLanesAwayFromASlowWorker) {
  lanes_ = "16";
  Program job(folder_, trireme(flags("run", "4", "0", {"--slow", "1:8", "--balance"})));
  ASSERT_TRUE(logs("run", {"view_formed", {{"rebalanced", true}}}));
  EXPECT_THAT(master_log("run"), HasEvent("stragglers_found", {{"stragglers", HasSubstr("worker 1 (")}}));
  expect_undisturbed(stopped(job));
}

}  // namespace
}  // namespace trireme::system_test
