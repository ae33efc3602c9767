#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

/// A sum of doubles without any rounding, in fixed point as wide as their whole range (Kulisch & Miranker 1986; Neal
/// 2015, "Fast exact summation using small and large superaccumulators"). So it does not depend on the order of the
/// additions, nor on which process made which of them: processes add up what they hold, and each other's sums.
class ExactSum {
 public:
  void add(double value);
  void add(const ExactSum& other);

  /// Returns the sum as a double: equal sums give equal bits, the error is below one unit in the last place. NaN if
  /// anything that was added was not finite.
  double value() const;

  /// The sum as it travels: equal sums give equal words.
  std::vector<std::int64_t> words() const;

  /// Throws Corrupt if they cannot be words of a sum.
  static ExactSum from_words(std::span<const std::int64_t> words);

 private:
  // Digits of 32 bits in 64: what is beyond is carried when it might not fit any more. The lowest bit of the first is
  // the smallest double, 2^-1074.
  static constexpr std::size_t kDigits = 70;

  void carry();

  std::array<std::int64_t, kDigits> digits_{};
  std::uint32_t additions_ = 0;  // since the last carry
  bool finite_ = true;
};

/// Adds the square of each of `values`. They are taken in lines of 16, the first of which begins at the first value: a
/// tensor that is cut at multiples of 16 adds up to the same, however it is cut.
void add_squares(std::span<const float> values, ExactSum& sum);

}  // namespace trireme
