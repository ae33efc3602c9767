// Which connection without the secret makes way when there are too many.
#include "net/secure/admission.h"

#include <gtest/gtest.h>

namespace trireme::net {
namespace {

using Clock = Deadline::Clock;

constexpr Clock::time_point kNow = Clock::time_point{} + 1h;
constexpr AdmissionLimits kLimits{.places = 4, .idle_after = 500ms};

Unproven quiet_for(std::chrono::milliseconds time, const std::string& from) {
  return {.from = from, .progress = kNow - time};
}

TEST(ChooseIdle, NobodyGoesWhileAllMakeProgress) {
  EXPECT_EQ(choose_idle({quiet_for(10ms, "a"), quiet_for(400ms, "b"), quiet_for(499ms, "c")}, kLimits, kNow),
            std::nullopt);
}

TEST(ChooseIdle, TheOneThatWasQuietForLongestGoes) {
  EXPECT_EQ(choose_idle({quiet_for(600ms, "a"), quiet_for(2s, "b"), quiet_for(1s, "c")}, kLimits, kNow), 1u);
}

TEST(ChooseIdle, TheAddressThatHoldsMostGivesUpFirst) {
  EXPECT_EQ(choose_idle({quiet_for(600ms, "a"), quiet_for(700ms, "a"), quiet_for(4s, "b")}, kLimits, kNow), 1u);
}

TEST(ChooseIdle, AnAddressWithMoreThanHalfOfThePlacesGetsAQuarterOfTheTime) {
  EXPECT_EQ(choose_idle({quiet_for(20ms, "a"), quiet_for(130ms, "a"), quiet_for(10ms, "a"), quiet_for(400ms, "b")},
                        kLimits, kNow),
            1u);
  EXPECT_EQ(choose_idle({quiet_for(130ms, "a"), quiet_for(130ms, "a"), quiet_for(130ms, "b"), quiet_for(130ms, "b")},
                        kLimits, kNow),
            std::nullopt);
}

TEST(Admission, AnIdleConnectionIsClosedForAnother) {
  const auto admission = std::make_shared<Admission>(AdmissionLimits{.places = 1, .idle_after = 0ms});
  EXPECT_TRUE(admission->make_room());
  Admission::Place first(admission, "a");
  bool closed = false;
  first.on_eviction([&] { closed = true; });
  EXPECT_TRUE(admission->make_room());
  EXPECT_TRUE(closed);
  EXPECT_TRUE(first.evicted());
}

TEST(Admission, WithoutAnIdleConnectionThereIsNoRoomUntilOneEnds) {
  const auto admission = std::make_shared<Admission>(AdmissionLimits{.places = 1, .idle_after = 1h});
  auto first = std::make_unique<Admission::Place>(admission, "a");
  EXPECT_FALSE(admission->make_room());
  EXPECT_FALSE(first->evicted());
  first.reset();
  EXPECT_TRUE(admission->make_room());
}

TEST(Admission, OneThatHadToGoBeforeItWasSetUpIsClosedAtOnce) {
  const auto admission = std::make_shared<Admission>(AdmissionLimits{.places = 1, .idle_after = 0ms});
  Admission::Place first(admission, "a");
  EXPECT_TRUE(admission->make_room());
  bool closed = false;
  first.on_eviction([&] { closed = true; });
  EXPECT_TRUE(closed);
}

}  // namespace
}  // namespace trireme::net
