// Three masters on a real etcd, of which one is in charge. Masters die and hang, and etcd goes away: the training does
// not notice, and who takes part can still change afterwards.

#include <signal.h>

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/master_finder.h"
#include "store/store.h"
#include "tests/support/etcd_cluster.h"
#include "tests/system/placed_job.h"

namespace trireme::system_test {
namespace {

constexpr std::size_t kEtcdMembers = 3;
constexpr std::uint32_t kWorkers = 2;
constexpr auto kInChargeWithin = 3s;  // after the end of the one before, where the machine has time for it

class Masters : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 3; ++i) add_master();
    for (std::uint32_t slot = 0; slot < kWorkers; ++slot) job_.start_worker(slot);
    ASSERT_TRUE(job_.advances(10));
  }

  void add_master() {
    auto master = job_.start_master({"--standby"});
    const pid_t pid = master->pid();
    masters_[pid] = std::move(master);
  }

  /// The process that etcd says is in charge; 0 = none is, or etcd is away.
  pid_t leader() {
    try {
      const auto found = store_->leader();
      return found ? std::stoi(found->name.substr(found->name.find_first_of("0123456789"))) : 0;
    } catch (const Error&) {
      return 0;
    }
  }

  /// Waits until one of the masters leads, not `former`; 0 if none did in time.
  pid_t next_leader(pid_t former = 0) {
    pid_t now = 0;
    const bool found = eventually([&] {
      now = leader();
      return now != former && masters_.contains(now);
    });
    return found ? now : 0;
  }

  /// Waits until all workers have found a master for the `times`th time; for ASSERT_TRUE.
  ::testing::AssertionResult all_find_a_master(std::size_t times) {
    const Deadline deadline = Deadline::in(kPatience);
    for (std::uint32_t slot = 0; slot < kWorkers; ++slot) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left());
      if (auto found = PlacedJob::logs(job_.worker(slot), "master_found", times, left); !found) return found;
    }
    return ::testing::AssertionSuccess();
  }

  /// Waits until any of the masters has logged that; for ASSERT_TRUE.
  ::testing::AssertionResult a_master_logs(const WantedEvent& event) {
    const auto logged = [&](const auto& entry) { return has_event(entry.second->err(), event); };
    if (eventually([&] { return std::ranges::any_of(masters_, logged); })) return ::testing::AssertionSuccess();
    auto failure = ::testing::AssertionFailure() << "no master logged " << event << ", but";
    for (const auto& [pid, master] : masters_) failure << "\nmaster " << pid << ":\n" << master->err();
    return failure;
  }

  /// Ends the training: it went as if nothing had happened.
  void end() {
    ask_to_stop(cluster::make_master_finder(etcd_.location("job"))().value(), job_.secret());
    job_.expect_undisturbed_end();
  }

  EtcdCluster etcd_{
      {.members = kEtcdMembers, .heartbeat = 100ms, .election_timeout = 1s}};  // the times are etcd's own defaults
  PlacedJob job_{{.workers = kWorkers, .store = etcd_.location("job")}};
  std::unique_ptr<store::Store> store_ = store::open_store({.location = etcd_.location("job"), .call_within = 1s});
  std::map<pid_t, std::unique_ptr<Program>> masters_;
};

TEST_F(Masters, AreKilledFiveTimesAndNoStepFails) {
  int in_time = 0;
  for (std::size_t kill = 1; kill <= 5; ++kill) {
    const pid_t leading = next_leader();
    ASSERT_GT(leading, 0);
    const Step step = job_.steps_made();
    masters_.at(leading)->send(SIGKILL);
    const Deadline promised = Deadline::in(kInChargeWithin);
    ASSERT_TRUE(all_find_a_master(kill + 1));  // each found the first one too
    if (!promised.passed()) ++in_time;
    EXPECT_GT(job_.steps_made(), step) << "the training waited for a master";
    masters_.erase(leading);
    add_master();
  }
  // One is proof: were it slower by design, there would be none. On a busy machine any of them may be late.
  EXPECT_GT(in_time, 0);
  end();
  job_.expect_each_step_once();
}

TEST_F(Masters, SurviveAnEtcdOutageAndThenAdmitAWorker) {
  for (std::size_t member = 0; member < kEtcdMembers; ++member) etcd_.kill(member);
  ASSERT_TRUE(job_.advances(400));  // longer than any lease
  for (std::size_t member = 0; member < kEtcdMembers; ++member) etcd_.restart(member);
  for (std::size_t member = 0; member < kEtcdMembers; ++member) etcd_.wait_ready(member);
  ASSERT_GT(next_leader(), 0);
  ASSERT_TRUE(job_.advances(50));
  EXPECT_EQ(job_.events().back().view, 1u);

  job_.kill_workers({1});
  ASSERT_TRUE(a_master_logs({"view_formed", {{"view", 2}, {"workers", 1}}}));
  ASSERT_TRUE(PlacedJob::logs(job_.start_worker(1), "group_formed"));
  ASSERT_TRUE(job_.advances(10));
  end();
}

TEST_F(Masters, SurviveAnEtcdThatHangs) {
  for (std::size_t member = 0; member < kEtcdMembers; ++member) etcd_.stop(member);
  ASSERT_TRUE(a_master_logs("leadership_renewal_failed"));
  ASSERT_TRUE(job_.advances(600));  // longer than any lease, and than a member may be silent
  for (std::size_t member = 0; member < kEtcdMembers; ++member) etcd_.resume(member);
  ASSERT_GT(next_leader(), 0);
  ASSERT_TRUE(job_.advances(50));
  end();
  job_.expect_each_step_once();
}

TEST_F(Masters, StoppedMasterIsFencedWhenItContinues) {
  const pid_t former = next_leader();
  ASSERT_GT(former, 0);
  masters_.at(former)->send(SIGSTOP);
  ASSERT_GT(next_leader(former), 0);
  ASSERT_TRUE(all_find_a_master(2));
  masters_.at(former)->send(SIGCONT);
  ASSERT_TRUE(PlacedJob::logs(*masters_.at(former), "leadership_lost"));
  ASSERT_TRUE(PlacedJob::logs(*masters_.at(former), "standing_by", 2)) << "it may be needed again";
  ASSERT_TRUE(job_.advances(20));
  end();
  job_.expect_each_step_once();
}

}  // namespace
}  // namespace trireme::system_test
