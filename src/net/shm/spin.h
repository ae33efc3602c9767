#pragma once

#include <chrono>
#include <thread>

namespace trireme::net {

/// Spins briefly before a sleep: a sleeping thread costs its waker tens of microseconds, a spinning one less than one.
///
/// Whoever we wait for may need this very core, so a spinner gives way every microsecond or so. Where strangers keep
/// the cores busy that would cost their whole time slice, milliseconds, while a thread that wakes up from a sleep runs
/// at once: having lost a slice, the thread sleeps without spinning for a while.
class Spinner {
 public:
  static constexpr std::chrono::microseconds kLimit{60};
  static constexpr std::chrono::microseconds kLostSlice{500};
  static constexpr std::chrono::milliseconds kCaution{200};

  /// One turn; false when it is time to sleep.
  bool spin() {
    pause();
    if (++turns_ % 64 != 0) return true;
    const auto now = std::chrono::steady_clock::now();
    if (turns_ == 64) began_ = now;
    if (now - began_ >= kLimit || now < crowded_until_) return false;
    std::this_thread::yield();
    const auto back = std::chrono::steady_clock::now();
    if (back - now > kLostSlice) crowded_until_ = back + kCaution;
    return true;
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

  static inline thread_local std::chrono::steady_clock::time_point crowded_until_;  // what it knows of its core

  unsigned turns_ = 0;
  std::chrono::steady_clock::time_point began_;
};

}  // namespace trireme::net
