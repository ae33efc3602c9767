#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme::observe {

/// How often values of which size occur: what TensorBoard draws.
struct Histogram {
  double min = 0;
  double max = 0;
  double count = 0;  ///< of all that are finite
  double sum = 0;
  double sum_squares = 0;
  std::vector<double> limits =
      {};  ///< the upper end of each bucket, growing; a bucket begins where the one before ends
  std::vector<double> counts = {};  ///< of each bucket
  std::uint64_t not_finite = 0;     ///< NaN and infinite ones, which are in no bucket

  bool operator==(const Histogram&) const = default;
};

/// Returns the histogram of `values`: each bucket reaches a tenth further from zero than the one before, so that small
/// and large values are told apart equally well. Empty buckets at both ends are left out.
Histogram histogram_of(std::span<const float> values);

}  // namespace trireme::observe
