#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "cuda/stream.h"

namespace trireme::cuda {

inline constexpr std::size_t kMostParts = 32;
inline constexpr std::size_t kSquareBlocks = 1024;  ///< partial sums of `sum_of_squares`

/// Partial sums of several ranks, and the order in which they are combined: see trireme::FoldOrder.
struct LaneSums {
  std::uint32_t count = 0;
  std::array<float*, kMostParts> parts = {};               ///< in lane order; each gets the sum
  std::array<std::uint8_t, kMostParts> combinations = {};  ///< that follow each part
};

/// Sums elements [begin, begin + count) of all parts along the summation tree, and writes the sum into every part: in
/// place, so whoever calls it owns these elements of all of them. Throws IoError.
void sum_lanes(const LaneSums& sums, std::size_t begin, std::size_t count, Stream stream);

/// Writes the sum of the squares of `values` to `result`, in double precision, added in an order that depends on
/// `count` alone. `partials` has room for kSquareBlocks. All is memory of the device. Throws IoError.
void sum_of_squares(const float* values, std::size_t count, double* partials, double* result, Stream stream);

}  // namespace trireme::cuda
