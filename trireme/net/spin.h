#pragma once

#include <chrono>

namespace trireme::net {

/// Spins briefly before a sleep: a sleeping thread costs its waker tens of microseconds, a spinning one less than one.
/// Short enough that more threads than cores do not starve each other.
class Spinner {
 public:
  static constexpr std::chrono::microseconds kLimit{60};

  /// One turn; false when it is time to sleep.
  bool spin() {
    pause();
    if (++turns_ % 64 != 0) return true;
    const auto now = std::chrono::steady_clock::now();
    if (turns_ == 64) began_ = now;
    return now - began_ < kLimit;
  }

  void reset() { turns_ = 0; }

 private:
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    asm volatile("" ::: "memory");
#endif
  }

  unsigned turns_ = 0;
  std::chrono::steady_clock::time_point began_;
};

}  // namespace trireme::net
