#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "trireme/collective.h"
#include "trireme/types.h"

#include "base/lanes.h"

namespace trireme::collective {

// The arithmetic of the collectives: many arrays into one, element by element. Nothing here waits; any thread.
// Pointers may have any alignment. All types but kBool, which throws InvalidArgument.
//
// Integers wrap. The minimum and maximum of anything and NaN is NaN; of -0 and +0 they are the later one. F16 and BF16
// are widened to float, combined as floats, and rounded once at the end. So a sum of three parts has one rounding to 16
// bits, not two; but a partial sum that came from elsewhere has been rounded already, and the promise that the result
// does not depend on who summed what holds for 16-bit types only where every part is a single lane.

/// `sum`, `average`, `min`, `max`, `product`. The text lives for ever.
std::string_view name_of(ReduceOp op);

/// One rank's contribution: what its values are the partial sum (or minimum, …) of, and where they are.
struct Contribution {
  LaneRange lanes;
  const std::byte* values = nullptr;
};

/// Combines `count` elements of each of `parts` (at least one; disjoint subtrees, in lane order, not necessarily
/// covering) along the summation tree over `lanes` lanes (base/lanes.h) into `out`, which is the memory of one of the
/// parts or overlaps none. For F32 sums the bits are those of `tree_sum`.
///
/// kAverage divides the sum by `divisor` >= 1, which the other operations ignore: floating-point numbers as such
/// (16-bit ones before they are rounded), integers with truncation.
///
/// `stream` writes `out` past the caches, so that it need not be fetched before it is overwritten: worth a third for
/// two parts of 16 MiB or more that nobody reads soon, a loss for what fits into a cache. Without effect in place.
///
/// Each part is read once and `out` is written once, as far as memory is concerned. Parts out of order or across a node
/// of the tree abort.
void reduce(DType dtype, ReduceOp op, Lane lanes, std::span<const Contribution> parts, std::size_t count,
            std::byte* out, std::uint64_t divisor, bool stream = false);

/// into = into op from, `count` elements that do not overlap: one step of a ring. kAverage adds; whoever has the whole
/// sum calls `divide`. 16-bit types are rounded in each step.
void combine(DType dtype, ReduceOp op, std::byte* into, const std::byte* from, std::size_t count);

/// values = values / divisor, as kAverage does it. `divisor` >= 1.
void divide(DType dtype, std::byte* values, std::size_t count, std::uint64_t divisor);

}  // namespace trireme::collective
