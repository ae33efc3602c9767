#include "launch/job/restart_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::launch {
namespace {

using ::testing::HasSubstr;

const RestartPolicy::Time kStart{1000s};

/// Ends right after its start; how long the pause before the next start is.
std::chrono::milliseconds pause_after_failure(RestartPolicy& policy, std::uint32_t slot, RestartPolicy::Time& now) {
  policy.on_start(slot, now);
  now += 1s;
  const RestartDecision decision = policy.on_end(slot, now);
  EXPECT_TRUE(decision.again);
  const auto pause = decision.at - now;
  now = decision.at;
  return std::chrono::duration_cast<std::chrono::milliseconds>(pause);
}

TEST(RestartPolicy, PausesGrowAndThenTheSlotIsAvoidedAndTriedAgain) {
  RestartPolicy policy({.limit = 3});
  auto now = kStart;
  EXPECT_EQ(pause_after_failure(policy, 0, now), 0ms);
  EXPECT_EQ(pause_after_failure(policy, 0, now), 500ms);
  EXPECT_EQ(pause_after_failure(policy, 0, now), 1s);
  EXPECT_EQ(pause_after_failure(policy, 0, now), 60s);
  EXPECT_EQ(pause_after_failure(policy, 0, now), 1s);  // one chance, then it is avoided for longer
  EXPECT_EQ(pause_after_failure(policy, 0, now), 120s);
}

TEST(RestartPolicy, EachSlotHasItsOwnRecord) {
  RestartPolicy policy;
  auto now = kStart;
  for (int i = 0; i < 3; ++i) pause_after_failure(policy, 0, now);
  EXPECT_EQ(pause_after_failure(policy, 1, now), 0ms);
}

TEST(RestartPolicy, LongRunResetsTheFailureCount) {
  RestartPolicy policy;
  auto now = kStart;
  for (int i = 0; i < 3; ++i) pause_after_failure(policy, 0, now);
  policy.on_start(0, now);
  const RestartDecision decision = policy.on_end(0, now + 61s);
  EXPECT_FALSE(decision.avoided);
  EXPECT_THAT(decision.reason, HasSubstr("restart 1 of 3"));
}

TEST(RestartPolicy, FailuresCountOnlyUntilSomethingIsAchieved) {
  RestartPolicy policy({.limit = 3});
  auto now = kStart;
  for (int storm = 0; storm < 5; ++storm) {
    EXPECT_EQ(pause_after_failure(policy, 0, now), 0ms);
    EXPECT_EQ(pause_after_failure(policy, 0, now), 500ms);
    EXPECT_EQ(pause_after_failure(policy, 0, now), 1s);
    policy.on_progress(0);
  }
}

TEST(RestartPolicy, SaysHowOftenItFailedAndHowManyRestartsAreAllowed) {
  RestartPolicy policy({.limit = 1});
  auto now = kStart;
  pause_after_failure(policy, 0, now);
  policy.on_start(0, now);
  const RestartDecision decision = policy.on_end(0, now);
  EXPECT_TRUE(decision.avoided);
  EXPECT_THAT(decision.reason, HasSubstr("failed 2 times in a row"));
  EXPECT_THAT(decision.reason, HasSubstr("1 restarts allowed"));
}

TEST(RestartPolicy, LimitZeroNeverRestarts) {
  RestartPolicy policy({.limit = 0});
  policy.on_start(0, kStart);
  EXPECT_FALSE(policy.on_end(0, kStart).again);
}

}  // namespace
}  // namespace trireme::launch
