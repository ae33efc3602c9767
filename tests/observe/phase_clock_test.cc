#include "observe/phase_clock.h"

#include <gtest/gtest.h>

#include "tests/support/eventually.h"

namespace trireme::observe {
namespace {

using Time = Deadline::Clock::time_point;
Time at(int ms) { return Time{} + std::chrono::milliseconds(ms + 1000); }

class Counter final : public SpanRecorder {
 public:
  void add(const Span& /*span*/) override { ++count; }
  int count = 0;
};

TEST(PhaseClock, SpansCountWithoutThoseInside) {
  const auto next = std::make_shared<Counter>();
  PhaseClock clock(next);
  clock.begin("backward", 7, at(0));
  clock.begin("push", 7, at(10));
  EXPECT_STREQ(clock.current(at(12)).what, "push");
  EXPECT_EQ(clock.current(at(12)).step, 7u);
  EXPECT_NEAR(clock.current(at(12)).for_s, 0.002, 1e-9);
  clock.add({.name = "push", .begin = at(10), .end = at(30), .step = 7});
  clock.add({.name = "backward", .begin = at(0), .end = at(100), .step = 7});
  clock.add({.name = "data", .begin = at(100), .end = at(105)});
  clock.add({.name = "step", .begin = at(0), .end = at(105)});
  clock.add({.name = "all-reduce x", .begin = at(0), .end = at(105), .overlaps = true});
  EXPECT_EQ(clock.current().what, nullptr);
  const auto phases = clock.take();
  ASSERT_EQ(phases.size(), kPhaseNames.size());
  EXPECT_NEAR(phases[*phase_of("backward")], 0.080, 1e-9);
  EXPECT_NEAR(phases[*phase_of("push")], 0.020, 1e-9);
  EXPECT_NEAR(phases[*phase_of("data")], 0.005, 1e-9);
  EXPECT_EQ(next->count, 5);
  EXPECT_EQ(clock.take(), std::vector<double>(kPhaseNames.size(), 0.0));
}

TEST(PhaseClock, OtherThreadsDoNotCount) {
  const auto next = std::make_shared<Counter>();
  PhaseClock clock(next);
  std::jthread([&] { const ScopedSpan span(&clock, "checkpoint"); }).join();
  EXPECT_EQ(next->count, 1);
  EXPECT_EQ(clock.take()[*phase_of("checkpoint")], 0);
  { const ScopedSpan span(&clock, "wait", 3); }
  EXPECT_EQ(next->count, 2);
}

TEST(PhaseClock, EverySpanHasAPhase) {
  EXPECT_EQ(phase_of("step"), std::nullopt);
  EXPECT_EQ(phase_of("pull"), phase_of("push"));
  EXPECT_EQ(phase_of("evaluation"), phase_of("anything"));
  EXPECT_EQ(std::string(kPhaseNames[*phase_of("wait")]), "wait");
}

}  // namespace
}  // namespace trireme::observe
