#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cluster/clock_estimate.h"

namespace trireme::dash {

/// Process `first` did something at its time `before` without which process `second` could not have done what it did at
/// its time `after`: a message went from the one to the other.
struct MessageOrder {
  std::size_t first = 0;
  std::int64_t before = 0;
  std::size_t second = 0;
  std::int64_t after = 0;
};

/// The error of a clock of which nothing is known.
inline constexpr std::int64_t kUnknownClock = std::int64_t{1} << 61;  // the sum of two of them does not overflow

/// What to add to the times of each process so that all are those of the master's clock.
struct ClockAlignment {
  std::vector<std::int64_t> offsets;  ///< nanoseconds, by process
  std::vector<std::int64_t> errors;   ///< by how much each may be wrong, either way; by process; or kUnknownClock
  bool contradiction = false;         ///< the orders contradict the bounds (a clock was set back?): they are not heeded
};

/// Finds offsets within the bounds with which no message arrives before it was sent. Bounds and orders are all limits
/// on differences of offsets, so the tightest ones are shortest paths, and the offsets half-way between the upper and
/// the lower limits heed all of them: the solutions of such a system are convex. (Cormen et al., Introduction to
/// Algorithms, "Difference constraints and shortest paths".) A process of which nothing is known keeps its own clock,
/// unless an order says more. Pure.
ClockAlignment align_clocks(const std::vector<cluster::ClockBounds>& bounds, const std::vector<MessageOrder>& orders);

}  // namespace trireme::dash
