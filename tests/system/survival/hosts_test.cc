// Hosts come and go: networks of this machine with a cable between them, and a job whose processes are placed there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/system/host.h"
#include "tests/system/placed_job.h"

namespace trireme::system_test {
namespace {

/// A job that needs two workers; with a loop of its own, or with a Trainer.
class Hosts : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    a_ = Host::make("10.99.0.1");
    if (!a_) GTEST_SKIP() << "network namespaces are not permitted here";
    b_ = a_->make_neighbour("10.99.0.2");
    master_ = job_.start_master({}, a_->site());
  }

  /// Waits until a view of so many workers has formed, for the `times`th time; for ASSERT_TRUE.
  ::testing::AssertionResult has_workers(int count, std::size_t times = 1) {
    return PlacedJob::logs(*master_, {"view_formed", {{"workers", count}}}, times);
  }

  /// The first that it began, once it has; nullopt if it did not in time.
  std::optional<Step> first_step_of(const Program& worker) {
    std::optional<Step> first;
    const bool began = eventually([&] {
      const auto& events = job_.events();
      const auto found = std::ranges::find(events, worker.pid(), &observe::StepEvent::pid);
      if (found != events.end()) first = found->step;
      return first.has_value();
    });
    return began ? first : std::nullopt;
  }

  /// As somebody at host A does it.
  void scale_to(int workers) {
    std::vector<std::string> command = a_->site().enter_with;
    for (const std::string& word : trireme({"scale", job_.run().string(), std::to_string(workers)})) {
      command.push_back(word);
    }
    const Outcome outcome = Program(job_.folder(), command).wait();
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  }

  std::unique_ptr<Host> a_;
  std::unique_ptr<Host> b_;
  PlacedJob job_{{.workers = 2, .min_workers = 2, .own_loop = GetParam()}};
  std::unique_ptr<Program> master_;
};

TEST_P(Hosts, AreAddedAndRemovedDownToBelowTheMinimum) {
  for (const std::uint32_t slot : {0u, 1u}) job_.start_worker(slot, a_->site());
  ASSERT_TRUE(has_workers(2));
  ASSERT_TRUE(job_.advances(10));

  scale_to(4);
  for (const std::uint32_t slot : {2u, 3u}) job_.start_worker(slot, b_->site());
  ASSERT_TRUE(has_workers(4));
  for (const std::uint32_t slot : {2u, 3u}) {
    if (GetParam()) continue;  // programs of one's own log warnings only
    ASSERT_TRUE(PlacedJob::logs(job_.worker(slot), {"group_formed", {{"ranks", 4}, {"over", "shm+tls"}}}));
  }
  ASSERT_TRUE(job_.advances(10));

  job_.kill_workers({2, 3});  // host B loses its power
  ASSERT_TRUE(has_workers(2, /*times=*/2));
  for (const char* dead : {"worker 2", "worker 3"}) {
    EXPECT_THAT(master_->err(), HasEvent("member_lost", {{"member", dead}, {"cause", "died"}}));
  }
  ASSERT_TRUE(job_.advances(10));

  job_.kill_workers({1});
  ASSERT_TRUE(PlacedJob::logs(*master_, {"members_awaited", {{"workers", 1}, {"min_workers", 2}}}));
  const Step waits_at = job_.steps_made();
  job_.start_worker(1, a_->site());
  ASSERT_TRUE(has_workers(2, /*times=*/3));
  const std::optional<Step> first = first_step_of(job_.worker(1));
  ASSERT_TRUE(first);
  // The step during which it died may have taken effect for it only, or for the other, which records that later.
  EXPECT_LE(*first, waits_at + 1) << "nothing is trained with too few";
  EXPECT_GE(*first + 1, waits_at);
  EXPECT_EQ(count_events(master_->err(), {"view_formed", {{"workers", 1}}}), 0u);
  ASSERT_TRUE(job_.advances(10));

  a_->run([&] { ask_to_stop(job_.announced(), job_.secret()); });
  job_.expect_undisturbed_end();
}

// On this machine: a job that was placed by hand is ended by whoever has its secret.
TEST(PlacedByHand, IsLookedAtAndStoppedThroughItsMaster) {
  PlacedJob job({.workers = 2});
  const auto master = job.start_master({});
  const std::string address = job.announced().text();
  for (const std::uint32_t slot : {0u, 1u}) job.start_worker(slot);
  ASSERT_TRUE(job.advances(10));
  const auto tell = [&](const std::string& command, const std::vector<std::string>& more) {
    std::vector<std::string> words{command, "--master", address};
    words.insert(words.end(), more.begin(), more.end());
    return run_trireme(job.folder(), words);
  };
  const std::vector<std::string> secret{"--secret-file", (job.run() / "secret").string()};
  const auto stop = [&](const std::vector<std::string>& more) { return tell("stop", more); };
  const Outcome unknown = stop({});
  EXPECT_EQ(unknown.status, 2) << unknown.err;
  EXPECT_THAT(unknown.err, ::testing::HasSubstr("--secret-file"));
  const std::string wrong = job.folder().write("wrong", std::string(32, 'x')).string();
  EXPECT_NE(stop({"--secret-file", wrong}).status, 0) << "another job's secret";
  ASSERT_TRUE(job.advances(5));
  const Outcome status = tell("status", secret);
  EXPECT_EQ(status.status, 0) << status.err;
  EXPECT_THAT(status.out, ::testing::HasSubstr("2 of 2 workers are at work"));
  const Outcome stopped = stop(secret);
  EXPECT_EQ(stopped.status, 0) << stopped.err;
  EXPECT_THAT(stopped.out, ::testing::HasSubstr("after its current step"));
  job.expect_undisturbed_end();
  EXPECT_EQ(master->wait().status, 0);
}

INSTANTIATE_TEST_SUITE_P(Loops, Hosts, ::testing::Bool(),
                         [](const auto& loop) { return loop.param ? "OwnLoop" : "Trainer"; });

}  // namespace
}  // namespace trireme::system_test
