#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "collective/reduction.h"

namespace trireme::collective {

/// All element types that can be reduced, and all ways to reduce them.
const std::vector<DType>& all_types();
const std::vector<ReduceOp>& all_ops();

/// What rank `rank` of a test brings along: the same in every process.
std::vector<std::byte> test_input(DType dtype, std::size_t count, Rank rank);

/// The reduction of the inputs of ranks 0 to `ranks` - 1 along the summation tree, element by element: as slow as it is
/// plain.
std::vector<std::byte> slow_reduction(DType dtype, ReduceOp op, std::size_t count, std::uint32_t ranks);

/// "" if both are the same, else where they differ first. `rounding`: floating-point numbers may differ by so many
/// units in the last place of a number of 4, or of themselves if they are larger.
std::string difference(DType dtype, Bytes expected, Bytes got, double rounding = 0);

}  // namespace trireme::collective
