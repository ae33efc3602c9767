#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trireme/dataset.h"

namespace trireme::data {

/// Least, mean, greatest and deviation of numbers.
class Moments {
 public:
  void add(double value);

  std::uint64_t count() const { return count_; }
  std::uint64_t not_finite() const { return not_finite_; }  ///< of them; they count for nothing else
  double least() const { return least_; }
  double most() const { return most_; }
  double mean() const { return mean_; }
  double deviation() const;

 private:
  std::uint64_t count_ = 0;
  std::uint64_t not_finite_ = 0;
  double least_ = 0;
  double most_ = 0;
  double mean_ = 0;
  double squares_ = 0;  ///< of the distances to the mean (Welford)
};

/// What there is to say about a field over all samples. Quantities have one Moments for each element where there are at
/// most kMostElements, for images one per channel, else one for all. Classes are counted.
struct FieldStatistics {
  static constexpr std::size_t kMostElements = 256;

  Field field = {};
  std::vector<Moments> quantities = {};                            ///< empty for classes
  std::vector<std::map<std::int64_t, std::uint64_t>> counts = {};  ///< of classes: by element, how often each occurs
  Moments lengths = {};                                            ///< of a field that varies
};

/// Reads all samples once. Throws as Dataset::read.
std::vector<FieldStatistics> statistics_of(const Dataset& samples);

/// Returns element `i` of a buffer of this type as a number.
double number_at(DType dtype, std::span<const std::byte> bytes, std::size_t i);

}  // namespace trireme::data
