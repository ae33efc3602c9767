#pragma once

#include <cstdint>

#include "trireme/types.h"

#include "base/bytes.h"

namespace trireme::checkpoint {

// Summaries of a tensor for people. Bytes may be at any address.

struct TensorStatistics {
  std::uint64_t elements = 0;
  std::uint64_t not_finite = 0;  ///< NaN and infinities; excluded from the rest
  double mean = 0;
  double min = 0;
  double max = 0;
  double norm = 0;  ///< square root of the sum of squares
};

/// Returns zeros if no element is finite.
TensorStatistics statistics(DType dtype, Bytes bytes);

struct TensorDifference {
  std::uint64_t differing = 0;  ///< elements whose bits differ
  double largest = 0;           ///< absolute difference; infinite where one is a number and the other is not finite
};

/// Compares `a` and `b`, which have the same size.
TensorDifference difference(DType dtype, Bytes a, Bytes b);

}  // namespace trireme::checkpoint
