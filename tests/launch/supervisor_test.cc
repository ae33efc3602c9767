#include "launch/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/launch/testing.h"

namespace trireme::launch {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// Every test runs with pidfds and as on a kernel without them.
class SupervisorTest : public testing::TestWithParam<bool> {
 protected:
  /// The next end, which has to come.
  Exit next_end() {
    const std::vector<Exit> ends = supervisor_.wait(Deadline::in(10s));
    EXPECT_THAT(ends, SizeIs(1));
    return ends.empty() ? Exit{} : ends.front();
  }

  void run_until_nothing_is_alive() {
    const Deadline deadline = Deadline::in(10s);
    while (supervisor_.alive() > 0 && !deadline.passed()) supervisor_.wait(deadline);
    ASSERT_EQ(supervisor_.alive(), 0U);
  }

  TempFolder folder_;
  Supervisor supervisor_{{.use_pidfd = GetParam()}};
};

INSTANTIATE_TEST_SUITE_P(Launch, SupervisorTest, testing::Bool(),
                         [](const auto& which) { return which.param ? "pidfd" : "timer"; });

TEST_P(SupervisorTest, ReportsStatusAndSignal) {
  const pid_t pid = supervisor_.start(shell("exit 3"));
  Exit exit = next_end();
  EXPECT_EQ(exit.name, "worker 0");
  EXPECT_EQ(exit.pid, pid);
  EXPECT_EQ(exit.status, 3);
  EXPECT_EQ(exit.signal, 0);
  EXPECT_EQ(supervisor_.worst_status(), 3);

  supervisor_.start(shell("kill -SEGV $$"));
  exit = next_end();
  EXPECT_EQ(exit.signal, SIGSEGV);
  EXPECT_EQ(exit.status, 128 + SIGSEGV);
  EXPECT_EQ(supervisor_.worst_status(), 128 + SIGSEGV);
  run_until_nothing_is_alive();
}

TEST_P(SupervisorTest, ReportsEachOfMany) {
  for (int status = 0; status < 20; ++status) supervisor_.start(shell("exit " + std::to_string(status)));
  std::size_t ends = 0;
  const Deadline deadline = Deadline::in(10s);
  while (supervisor_.alive() > 0 && !deadline.passed()) ends += supervisor_.wait(deadline).size();
  EXPECT_EQ(ends, 20U);
  EXPECT_EQ(supervisor_.worst_status(), 19);
}

TEST_P(SupervisorTest, PollDoesNotWait) {
  supervisor_.start(shell("sleep 1000"));
  EXPECT_THAT(supervisor_.poll(), IsEmpty());
  EXPECT_EQ(supervisor_.alive(), 1U);
}

TEST_P(SupervisorTest, WaitEndsAtItsDeadline) {
  supervisor_.start(shell("sleep 1000"));
  const Deadline deadline = Deadline::in(20ms);
  EXPECT_THAT(supervisor_.wait(deadline), IsEmpty());
  EXPECT_TRUE(deadline.passed());
}

TEST_P(SupervisorTest, WaitEndsWhenWoken) {
  supervisor_.start(shell("sleep 1000"));
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const FileDescriptor wake(ends[0]);
  FileDescriptor(ends[1]).close();  // end of file makes the other end readable
  const Deadline deadline = Deadline::in(10s);
  EXPECT_THAT(supervisor_.wait(deadline, wake.get()), IsEmpty());
  EXPECT_FALSE(deadline.passed());
}

TEST_P(SupervisorTest, DescriptorIsReadableWhenAProcessEnds) {
  supervisor_.start(shell("exit 0"));
  std::vector<Exit> ends;
  EXPECT_TRUE(eventually([&] {
    pollfd ready{.fd = supervisor_.descriptor(), .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, 10'000) == 1) ends = supervisor_.poll();
    return !ends.empty();
  }));
}

TEST_P(SupervisorTest, StoppedProcessIsNoFailure) {
  supervisor_.start(shell("sleep 1000"));
  supervisor_.stop(10s);
  const Exit exit = next_end();
  EXPECT_EQ(exit.signal, SIGTERM);
  EXPECT_TRUE(exit.by_us);
  EXPECT_EQ(supervisor_.worst_status(), 0);
}

TEST_P(SupervisorTest, AFailureBeforeStopStaysAFailure) {
  const pid_t pid = supervisor_.start(shell("kill -KILL $$"));
  ASSERT_TRUE(eventually([&] { return is_gone(pid); }));
  supervisor_.stop(10s);
  EXPECT_FALSE(next_end().by_us);
  EXPECT_EQ(supervisor_.worst_status(), 128 + SIGKILL);
}

TEST_P(SupervisorTest, StubbornChildIsKilledAfterTheGrace) {
  supervisor_.start(shell("trap '' TERM; echo ready; while :; do sleep 1000; done", folder_ / "log"));
  ASSERT_TRUE(eventually([&] { return contains(folder_ / "log", "ready"); }));
  const Deadline grace = Deadline::in(100ms);
  supervisor_.stop(100ms);
  const Exit exit = next_end();
  EXPECT_TRUE(grace.passed());
  EXPECT_EQ(exit.signal, SIGKILL);
  EXPECT_TRUE(exit.by_us);
  EXPECT_EQ(supervisor_.worst_status(), 0);
}

TEST_P(SupervisorTest, SuspendedChildIsStoppedToo) {
  // One process: a shell that is stopped while it starts another may not count as stopped.
  const pid_t pid = supervisor_.start(shell("exec sleep 1000"));
  ASSERT_EQ(::kill(-pid, SIGSTOP), 0);
  ASSERT_TRUE(eventually([&] { return state_of(pid) == 'T'; }));
  supervisor_.stop(60s);
  EXPECT_EQ(next_end().signal, SIGTERM);
}

TEST_P(SupervisorTest, KillNowCutsTheGraceShort) {
  supervisor_.start(shell("trap '' TERM; echo ready; while :; do sleep 1000; done", folder_ / "log"));
  ASSERT_TRUE(eventually([&] { return contains(folder_ / "log", "ready"); }));
  supervisor_.stop(1h);
  supervisor_.kill_now();
  EXPECT_EQ(next_end().signal, SIGKILL);
  run_until_nothing_is_alive();
}

TEST_P(SupervisorTest, GrandchildrenEndWithTheirParent) {
  supervisor_.start(shell("sleep 1000 & echo $!; exit 0", folder_ / "log"));
  EXPECT_EQ(next_end().status, 0);
  run_until_nothing_is_alive();
  EXPECT_TRUE(is_gone(std::stoi(content_of(folder_ / "log"))));
}

TEST_P(SupervisorTest, GrandchildrenGetTheWholeGracePeriod) {
  // The script dies of SIGTERM at once; the program it runs saves its work first.
  supervisor_.start(
      shell("(trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.01; done) & wait", folder_ / "log"));
  ASSERT_TRUE(eventually([&] { return contains(folder_ / "log", "ready"); }));
  supervisor_.stop(10s);
  EXPECT_EQ(next_end().signal, SIGTERM);
  run_until_nothing_is_alive();
  EXPECT_TRUE(contains(folder_ / "log", "saved"));
}

TEST_P(SupervisorTest, StubbornGrandchildrenAreKilledAfterTheGrace) {
  supervisor_.start(shell("(trap '' TERM; echo ready; exec sleep 1000) & wait", folder_ / "log"));
  ASSERT_TRUE(eventually([&] { return contains(folder_ / "log", "ready"); }));
  supervisor_.stop(50ms);
  run_until_nothing_is_alive();
}

TEST_P(SupervisorTest, StatusesSurviveAnIgnoredSigchld) {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  {
    Supervisor careful{{.use_pidfd = GetParam()}};
    careful.start(shell("exit 4"));
    careful.wait(Deadline::in(10s));
    EXPECT_EQ(careful.worst_status(), 4);
  }
  ::signal(SIGCHLD, before);
}

TEST(Supervisor, DestructorLeavesNothing) {
  TempFolder folder;
  pid_t leader = 0;
  {
    Supervisor supervisor;
    leader = supervisor.start(shell("trap '' TERM; sleep 1000 & echo $!; wait", folder / "log"));
    ASSERT_TRUE(eventually([&] { return contains(folder / "log", "\n"); }));
  }
  EXPECT_TRUE(is_gone(leader));
  EXPECT_TRUE(is_gone(std::stoi(content_of(folder / "log"))));
}

TEST(SupervisorDeathTest, AnotherThreadMustNotStartProcesses) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Supervisor supervisor;
        std::thread([&] { supervisor.start(shell("exit 0")); }).join();
      },
      "would be killed with a thread");
}

}  // namespace
}  // namespace trireme::launch
