#pragma once

#include <algorithm>
#include <chrono>

namespace trireme {

using namespace std::chrono_literals;

/// The time until which a caller is willing to wait. Every wait in Trireme takes one.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline in(Clock::duration time) { return Deadline(Clock::now() + time, time); }

  bool passed() const { return Clock::now() >= at_; }
  Clock::time_point at() const { return at_; }

  /// How long the wait was meant to be: for messages.
  std::chrono::milliseconds allowed() const { return std::chrono::duration_cast<std::chrono::milliseconds>(allowed_); }

  /// Time left, never negative.
  Clock::duration left() const { return std::max(Clock::duration::zero(), at_ - Clock::now()); }

 private:
  Deadline(Clock::time_point at, Clock::duration allowed) : at_(at), allowed_(allowed) {}

  Clock::time_point at_;
  Clock::duration allowed_;
};

/// Seconds as a double, for rates and reports.
inline double seconds(std::chrono::steady_clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace trireme
