#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "trireme/deadline.h"

namespace trireme::cluster {

/// By how many nanoseconds the master's monotonic clock is ahead of a process's: between `least` and `most`.
struct ClockBounds {
  std::int64_t least = 0;
  std::int64_t most = 0;
  bool known = false;  ///< false: it has not been measured
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ClockBounds, least, most, known)
  bool operator==(const ClockBounds&) const = default;
};

/// Returns what two processes have in common if their monotonic clocks are the same: the boot of the host, and the time
/// namespace. Empty = not known.
std::string own_clock_id();

/// Returns nanoseconds of this process's monotonic clock.
std::int64_t clock_now();

/// Learns from each answered message how far the master's clock is ahead (Cristian 1989): the master read its clock
/// after the question was sent and before the answer came. All that was ever learned counts, but less and less sharply,
/// as clocks drift. A value.
class ClockEstimate {
 public:
  /// How fast two clocks may drift apart: ten times what quartz does.
  static constexpr double kDrift = 200e-6;

  explicit ClockEstimate(std::string own_id = own_clock_id()) : own_id_(std::move(own_id)) {}

  /// The master with the clock `id` read `master` between `sent` and `received`, which are times of the own clock.
  void add(const std::string& id, std::int64_t sent, std::int64_t master, std::int64_t received);

  /// Returns the bounds at `now`, a time of the own clock. Exact where both have the same clock.
  ClockBounds at(std::int64_t now) const;

 private:
  std::string own_id_;
  std::string id_;  // of the master's clock
  ClockBounds bounds_;
  std::int64_t measured_ = 0;  // when `bounds_` were right
};

}  // namespace trireme::cluster
