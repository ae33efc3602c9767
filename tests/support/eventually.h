#pragma once

#include <chrono>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "trireme/deadline.h"

namespace trireme {

// Tests wait for conditions, never for a time to pass; a clock is read nowhere else. A limit is a promise of the README
// (a death is noticed in a second, a hang in three), or else so long that only a hang takes it.

/// So long that only a hang takes it, also on a busy machine.
inline constexpr std::chrono::seconds kPatience = 60s;

/// Waits until `condition()` holds; returns false if it did not within `time`. Looks again and again: what other
/// threads and processes do does not wake us.
template <typename Condition>
[[nodiscard]] bool eventually(Condition condition, std::chrono::milliseconds time = kPatience) {
  const Deadline deadline = Deadline::in(time);
  while (!condition()) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

/// Runs `call` on a thread of its own. A test failure if it has not ended after `time`; it is waited for all the same.
template <typename Call>
void expect_ends_within(std::chrono::milliseconds time, Call call) {
  auto ended = std::async(std::launch::async, std::move(call));
  EXPECT_EQ(ended.wait_for(time), std::future_status::ready) << "it takes longer than " << time.count() << " ms";
  ended.get();
}

}  // namespace trireme
