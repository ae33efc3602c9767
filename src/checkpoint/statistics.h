#pragma once

#include <cstdint>

#include "trireme/types.h"

#include "base/bytes.h"

namespace trireme::checkpoint {

// What a person wants to know of a tensor before looking at its numbers. Bytes may lie at any address.

struct TensorStatistics {
  std::uint64_t elements = 0;
  std::uint64_t not_finite = 0;  ///< NaN and infinities; they are left out of the rest
  double mean = 0;
  double min = 0;
  double max = 0;
  double norm = 0;  ///< square root of the sum of squares
};

/// Zeros where no element is finite.
TensorStatistics statistics(DType dtype, Bytes bytes);

struct TensorDifference {
  std::uint64_t differing = 0;  ///< elements whose bits are not the same
  double largest = 0;           ///< absolute difference; infinite where one is a number and the other is not finite
};

/// `a` and `b` have the same size.
TensorDifference difference(DType dtype, Bytes a, Bytes b);

}  // namespace trireme::checkpoint
