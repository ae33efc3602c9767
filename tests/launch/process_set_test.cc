#include "launch/process_set.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/error.h"

#include "tests/launch/testing.h"
#include "tests/support/expect_fails.h"

namespace trireme::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr pid_t kNobody = 1 << 30;  // larger than any process id: a signal to it reaches nobody

/// Workers that are only counted; time is a number.
struct ProcessSetTest : ::testing::Test {
  ProcessSet make(std::uint32_t wanted, RestartOptions restarts = {}) {
    return {"worker", wanted, restarts, [this](std::uint32_t slot) {
              started.push_back(slot);
              return kNobody;
            }};
  }
  ProcessSet::Time at(std::chrono::milliseconds time) const { return ProcessSet::Time() + 1h + time; }

  std::vector<std::uint32_t> started;
};

TEST_F(ProcessSetTest, StartsEverySlotOnce) {
  ProcessSet set = make(3);
  EXPECT_TRUE(set.gone());
  set.start_all(at(0ms));
  EXPECT_THAT(started, ElementsAre(0, 1, 2));
  EXPECT_TRUE(set.running());
  EXPECT_FALSE(set.gone());
  EXPECT_FALSE(set.came_later(0));
}

TEST_F(ProcessSetTest, KnowsItsProcessesByRoleAndSlot) {
  const ProcessSet set = make(1);
  EXPECT_TRUE(set.has("worker 3"));
  EXPECT_FALSE(set.has("server 3"));
  EXPECT_FALSE(set.has("workers 3"));
  EXPECT_EQ(ProcessSet::slot_of("worker 12"), 12);
}

TEST_F(ProcessSetTest, RestartsAFailedProcessWhenItsPauseIsOver) {
  ProcessSet set = make(2, {.limit = 3, .first_pause = 100ms});
  set.start_all(at(0ms));
  started.clear();
  EXPECT_FALSE(set.note_end(1, at(10ms)));
  const RestartDecision decision = set.restart(1, at(10ms));
  EXPECT_TRUE(decision.again);
  EXPECT_EQ(decision.at, at(110ms));
  set.start_due(at(109ms));
  EXPECT_THAT(started, IsEmpty());
  set.start_due(at(110ms));
  EXPECT_THAT(started, ElementsAre(1));
  EXPECT_TRUE(set.came_later(1));
  EXPECT_FALSE(set.came_later(0));
  set.start_due(at(1h));
  EXPECT_THAT(started, ElementsAre(1));
}

TEST_F(ProcessSetTest, WithoutRestartsAnEndedProcessStaysGone) {
  ProcessSet set = make(1, {.limit = 0});
  set.start_all(at(0ms));
  EXPECT_FALSE(set.note_end(0, at(1ms)));
  EXPECT_FALSE(set.restart(0, at(1ms)).again);
  EXPECT_TRUE(set.gone());
}

TEST_F(ProcessSetTest, IsNotGoneWhileARestartIsDue) {
  ProcessSet set = make(1, {.first_pause = 1s});
  set.start_all(at(0ms));
  set.note_end(0, at(1ms));
  set.restart(0, at(1ms));
  EXPECT_FALSE(set.running());
  EXPECT_FALSE(set.gone());
}

TEST_F(ProcessSetTest, GrowingStartsTheSlotsThatAreMissing) {
  ProcessSet set = make(1);
  set.start_all(at(0ms));
  set.resize(3, /*to_be_told=*/true, at(1ms));
  EXPECT_THAT(started, ElementsAre(0, 1, 2));
  EXPECT_EQ(set.wanted(), 3);
}

/// Of which slots from `full` on cannot be started.
struct FullHost : ProcessSetTest {
  ProcessSet make_full(std::uint32_t wanted) {
    return {"worker", wanted, RestartOptions{.first_pause = 1s}, [this](std::uint32_t slot) {
              if (slot >= full) throw InvalidArgument("no room for " + std::to_string(slot));
              started.push_back(slot);
              return kNobody;
            }};
  }

  std::uint32_t full = 3;
};

TEST_F(FullHost, GrowingBeyondWhatCanBeStartedLeavesAsManyAsBefore) {
  ProcessSet set = make_full(2);
  set.start_all(at(0ms));
  EXPECT_FAILS(set.resize(5, /*to_be_told=*/true, at(1ms)), InvalidArgument, "no room for 3");
  EXPECT_EQ(set.wanted(), 2);
  EXPECT_THAT(started, ElementsAre(0, 1, 2));
  EXPECT_TRUE(set.note_end(2, at(2ms)));  // it was told to
  set.start_due(at(1h));
  EXPECT_THAT(started, ElementsAre(0, 1, 2));
}

TEST_F(FullHost, ARestartThatFailsIsTriedAgain) {
  ProcessSet set = make_full(1);
  set.start_all(at(0ms));
  set.note_end(0, at(1ms));
  set.restart(0, at(1ms));
  full = 0;
  EXPECT_FAILS(set.start_due(at(1001ms)), InvalidArgument, "no room for 0");
  EXPECT_FALSE(set.gone());
  full = 1;
  set.start_due(at(1h));
  EXPECT_THAT(started, ElementsAre(0, 0));
}

TEST_F(ProcessSetTest, GrowingDoesNotStartASlotWhoseRestartIsDue) {
  ProcessSet set = make(1, {.first_pause = 1s});
  set.start_all(at(0ms));
  set.note_end(0, at(1ms));
  set.restart(0, at(1ms));
  set.resize(2, /*to_be_told=*/true, at(2ms));
  EXPECT_THAT(started, ElementsAre(0, 1));
  set.start_due(at(2s));
  EXPECT_THAT(started, ElementsAre(0, 1, 0));
}

TEST_F(ProcessSetTest, EndOfAProcessThatWasReleasedIsExpected) {
  ProcessSet set = make(2);
  set.start_all(at(0ms));
  set.resize(1, /*to_be_told=*/true, at(1ms));
  EXPECT_TRUE(set.note_end(1, at(2ms)));
  set.start_due(at(1h));
  EXPECT_THAT(started, ElementsAre(0, 1));
  EXPECT_TRUE(set.running());
}

TEST_F(ProcessSetTest, ReleasedProcessThatIsNeededAgainIsReplaced) {
  ProcessSet set = make(2);
  set.start_all(at(0ms));
  set.resize(1, /*to_be_told=*/true, at(1ms));
  set.resize(2, /*to_be_told=*/true, at(2ms));
  EXPECT_THAT(started, ElementsAre(0, 1));  // it still runs
  EXPECT_TRUE(set.note_end(1, at(3ms)));
  set.start_due(at(3ms));
  EXPECT_THAT(started, ElementsAre(0, 1, 1));
}

TEST_F(ProcessSetTest, UnwantedSlotIsNotRestarted) {
  ProcessSet set = make(2, {.first_pause = 1s});
  set.start_all(at(0ms));
  set.note_end(1, at(1ms));
  set.restart(1, at(1ms));
  set.resize(1, /*to_be_told=*/true, at(2ms));
  set.start_due(at(2s));
  EXPECT_THAT(started, ElementsAre(0, 1));
}

TEST_F(ProcessSetTest, ProcessThatFailsTooOftenIsAvoided) {
  ProcessSet set = make(1, {.limit = 1, .avoid_for = 60s});
  set.start_all(at(0ms));
  set.note_end(0, at(1ms));
  EXPECT_FALSE(set.restart(0, at(1ms)).avoided);
  set.start_due(at(1ms));
  set.note_end(0, at(2ms));
  const RestartDecision decision = set.restart(0, at(2ms));
  EXPECT_TRUE(decision.avoided);
  EXPECT_EQ(decision.at, at(2ms) + 60s);
}

TEST_F(ProcessSetTest, OnlyStepsOfItsOwnProcessClearTheRecordOfASlot) {
  ProcessSet set = make(2, {.limit = 1, .avoid_for = 60s});
  set.start_all(at(0ms));
  set.note_status(1, {0, 1}, /*advanced=*/false);
  const auto fails = [&](std::uint32_t slot) {
    set.note_end(slot, at(1ms));
    const RestartDecision decision = set.restart(slot, at(1ms));
    set.start_due(at(1h));
    return decision;
  };
  EXPECT_FALSE(fails(1).avoided);
  set.note_status(1, {0, 1}, /*advanced=*/true);  // still the view of the one that died
  EXPECT_TRUE(fails(1).avoided);
  for (View view = 2; view < 10; ++view) {
    set.note_status(view, {0, 1}, /*advanced=*/true);
    EXPECT_FALSE(fails(1).avoided) << "view " << view;
  }
  set.note_status(10, {0}, /*advanced=*/true);  // the others go on without it
  EXPECT_TRUE(fails(1).avoided);
}

TEST_F(ProcessSetTest, LatecomersAreThoseThatNoViewHasSeen) {
  ProcessSet set = make(1);
  set.start_all(at(0s));
  EXPECT_THAT(set.latecomers(), IsEmpty());  // it was there from the beginning
  set.note_status(1, {0}, /*advanced=*/true);
  set.resize(3, /*to_be_told=*/true, at(1s));
  EXPECT_THAT(set.latecomers(), ElementsAre(kNobody, kNobody));
  set.note_status(2, {0, 1, 2}, /*advanced=*/true);
  EXPECT_THAT(set.latecomers(), IsEmpty());
}

TEST_F(ProcessSetTest, IsHopelessOnlyWhenEveryoneFailedTooOften) {
  ProcessSet set = make(2, {.limit = 1, .next_pause = 1s, .avoid_for = 60s});
  set.start_all(at(0ms));
  for (const auto slot : {0u, 1u}) {
    set.note_end(slot, at(1ms));
    set.restart(slot, at(1ms));
  }
  set.start_due(at(1ms));
  set.note_end(0, at(2ms));
  EXPECT_TRUE(set.restart(0, at(2ms)).avoided);
  EXPECT_FALSE(set.hopeless()) << "1 runs";
  set.note_status(1, {1}, /*advanced=*/true);
  set.note_end(1, at(3ms));
  EXPECT_FALSE(set.restart(1, at(3ms)).avoided);
  EXPECT_FALSE(set.hopeless()) << "1 will be started soon";
  set.start_due(at(3ms));
  set.note_end(1, at(4ms));
  set.restart(1, at(4ms));
  EXPECT_TRUE(set.hopeless());
}

/// A process that waits for a signal.
pid_t start_idle() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(60);
    for (;;) ::pause();
  }
  return pid;
}

int signal_that_ended(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(ProcessSet, ShrinkingSendsSigtermToTheSurplusOnly) {
  std::vector<pid_t> pids;
  ProcessSet set("worker", 3, {}, [&](std::uint32_t) { return pids.emplace_back(start_idle()); });
  set.start_all({});
  set.resize(1, /*to_be_told=*/true, {});
  EXPECT_EQ(signal_that_ended(pids[1]), SIGTERM);
  EXPECT_EQ(signal_that_ended(pids[2]), SIGTERM);
  EXPECT_EQ(::waitpid(pids[0], nullptr, WNOHANG), 0);
  ::kill(pids[0], SIGKILL);
  EXPECT_EQ(signal_that_ended(pids[0]), SIGKILL);
  EXPECT_TRUE(set.note_end(1, {}));
  EXPECT_TRUE(set.note_end(2, {}));
  EXPECT_FALSE(set.note_end(0, {}));  // nobody had told it to end
}

TEST(ProcessSet, ShrinkingWithoutNotificationSendsNoSignal) {
  std::vector<pid_t> pids;
  ProcessSet set("server", 2, {}, [&](std::uint32_t) { return pids.emplace_back(start_idle()); });
  set.start_all({});
  set.resize(1, /*to_be_told=*/false, {});
  for (const pid_t pid : pids) {
    EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), 0);
    ::kill(pid, SIGKILL);
    EXPECT_EQ(signal_that_ended(pid), SIGKILL);
  }
}

}  // namespace
}  // namespace trireme::launch
