#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "trireme/collective.h"
#include "trireme/types.h"

#include "base/numbers/lanes.h"

namespace trireme::collective {

// The arithmetic of the collectives: many arrays into one, element by element. Nothing here waits; thread-safe.
// Pointers may have any alignment. All types except kBool, which throws InvalidArgument.
//
// Integers wrap. The minimum and maximum of anything and NaN is NaN; of -0 and +0 it is the later one. F16 and BF16 are
// widened to float, combined as floats, and rounded once at the end. So a sum of three parts is rounded to 16 bits
// once, not twice; but a partial sum from another rank has been rounded already, so for 16-bit types the result is
// independent of which rank summed what only if every part is a single lane.

/// Returns `sum`, `average`, `min`, `max`, `product`: a literal.
std::string_view name_of(ReduceOp op);

/// One rank's contribution: the lanes of which its values are the partial sum (or minimum, …), and where they are.
struct Contribution {
  LaneRange lanes;
  const std::byte* values = nullptr;
};

/// Combines `count` elements of each of `parts` (at least one; disjoint subtrees, in lane order, possibly with gaps)
/// along the summation tree over `lanes` lanes (base/numbers/lanes.h) into `out`, which is the memory of one of the
/// parts or overlaps none. For F32 sums the bits are those of `tree_sum`.
///
/// kAverage divides the sum by `divisor` >= 1, which the other operations ignore: floating-point numbers as such
/// (16-bit ones before they are rounded), integers with truncation.
///
/// `stream` writes `out` around the caches, so that it need not be fetched before it is overwritten: saves a third for
/// two parts of 16 MiB or more that are not read soon, slower for what fits into a cache. No effect in place.
///
/// Reads each part from memory once and writes `out` once. Aborts if parts are out of order or cross the boundary of a
/// node of the tree.
void reduce(DType dtype, ReduceOp op, Lane lanes, std::span<const Contribution> parts, std::size_t count,
            std::byte* out, std::uint64_t divisor, bool stream = false);

/// Computes into = into op from, for `count` elements that do not overlap: one step of a ring. kAverage adds; the rank
/// that has the whole sum calls `divide`. 16-bit types are rounded in each step.
void combine(DType dtype, ReduceOp op, std::byte* into, const std::byte* from, std::size_t count);

/// Computes values = values / divisor, as kAverage does. `divisor` >= 1.
void divide(DType dtype, std::byte* values, std::size_t count, std::uint64_t divisor);

}  // namespace trireme::collective
