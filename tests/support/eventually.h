#pragma once

#include <chrono>
#include <thread>

#include "trireme/deadline.h"

namespace trireme {

/// Waits until `condition()` holds; returns false if it did not within `time`. The only place where tests sleep: what
/// another thread or process does can be looked at, but does not wake us. `time` is how long a hang may take to fail
/// the test, not how long the thing should take; where that is promised, the promise is given.
template <typename Condition>
[[nodiscard]] bool eventually(Condition condition, std::chrono::milliseconds time = 20s) {
  const Deadline deadline = Deadline::in(time);
  while (!condition()) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

}  // namespace trireme
