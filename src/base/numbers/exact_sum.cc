#include "base/numbers/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/numbers/simd.h"

namespace trireme {
namespace {

constexpr int kDigitBits = 32;
constexpr std::int64_t kDigitMask = (std::int64_t{1} << kDigitBits) - 1;
constexpr std::uint32_t kMostAdditions = 1u << 30;  // each adds less than 2^32 to a digit
constexpr int kMantissaBits = 52;
constexpr int kLowest = 1074;  // 2^-1074 is the smallest double

constexpr std::size_t kLine = 16;
constexpr std::size_t kBlock = 256;  // lines at a time

/// sums[l] = the sum of the squares of line l, in a fixed order: no square is rounded, since 24 bits squared fit.
TRIREME_SIMD void square_lines(const float* values, std::size_t lines, double* sums) {
  for (std::size_t line = 0; line < lines; ++line) {
    const float* const v = values + line * kLine;
    double s[kLine];
    for (std::size_t i = 0; i < kLine; ++i) s[i] = static_cast<double>(v[i]) * static_cast<double>(v[i]);
    for (std::size_t half = kLine / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) s[i] += s[i + half];
    }
    sums[line] = s[0];
  }
}

}  // namespace

void ExactSum::add(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const int exponent = static_cast<int>((bits >> kMantissaBits) & 0x7ff);
  if (exponent == 0x7ff) {
    finite_ = false;
    return;
  }
  std::uint64_t mantissa = bits & ((std::uint64_t{1} << kMantissaBits) - 1);
  if (exponent > 0) mantissa |= std::uint64_t{1} << kMantissaBits;
  const int position = exponent > 0 ? exponent - 1 : 0;  // of the mantissa's lowest bit, counted from 2^-1074
  const int shift = position % kDigitBits;
  std::int64_t* const digit = digits_.data() + position / kDigitBits;
  const std::uint64_t low = (mantissa & kDigitMask) << shift;
  const std::uint64_t high = (mantissa >> kDigitBits) << shift;
  const std::uint64_t middle = (low >> kDigitBits) + (high & kDigitMask);
  const std::int64_t sign = (bits >> 63) != 0 ? -1 : 1;
  digit[0] += sign * static_cast<std::int64_t>(low & kDigitMask);
  digit[1] += sign * static_cast<std::int64_t>(middle & kDigitMask);
  digit[2] += sign * static_cast<std::int64_t>((middle >> kDigitBits) + (high >> kDigitBits));
  if (++additions_ == kMostAdditions) carry();
}

void ExactSum::add(const ExactSum& other) {
  ExactSum carried = other;
  carried.carry();
  carry();
  for (std::size_t i = 0; i < kDigits; ++i) digits_[i] += carried.digits_[i];
  additions_ = 2;
  finite_ = finite_ && other.finite_;
}

/// Afterwards every digit but the last is within 0..2^32-1: there is one such form of each sum.
void ExactSum::carry() {
  for (std::size_t i = 0; i + 1 < kDigits; ++i) {
    digits_[i + 1] += digits_[i] >> kDigitBits;  // rounds down, also below zero
    digits_[i] &= kDigitMask;
  }
  additions_ = 1;
}

double ExactSum::value() const {
  if (!finite_) return std::numeric_limits<double>::quiet_NaN();
  ExactSum carried = *this;
  carried.carry();
  const bool negative = carried.digits_.back() < 0;
  if (negative) {
    for (std::int64_t& digit : carried.digits_) digit = -digit;
    carried.carry();
  }
  double result = 0;
  for (std::size_t i = kDigits; i-- > 0;) {
    result += std::ldexp(static_cast<double>(carried.digits_[i]), static_cast<int>(i) * kDigitBits - kLowest);
  }
  return negative ? -result : result;
}

std::vector<std::int64_t> ExactSum::words() const {
  ExactSum carried = *this;
  carried.carry();
  std::vector<std::int64_t> words(carried.digits_.begin(), carried.digits_.end());
  if (!finite_) words.front() = -1;
  return words;
}

ExactSum ExactSum::from_words(std::span<const std::int64_t> words) {
  if (words.size() != kDigits) fail<Corrupt>("a sum has {} words where {} belong", words.size(), kDigits);
  ExactSum sum;
  sum.finite_ = words.front() != -1;
  for (std::size_t i = 0; i < kDigits; ++i) {
    const bool last = i + 1 == kDigits;
    const bool fits = words[i] >= 0 && words[i] <= kDigitMask;
    if (!fits && !(last && words[i] < 0 && words[i] >= -kDigitMask) && !(i == 0 && !sum.finite_)) {
      fail<Corrupt>("word {} of a sum is {}, which no word can be", i, words[i]);
    }
    sum.digits_[i] = words[i];
  }
  if (!sum.finite_) sum.digits_.front() = 0;
  sum.additions_ = 1;
  return sum;
}

void add_squares(std::span<const float> values, ExactSum& sum) {
  std::array<double, kBlock> lines;
  const std::size_t whole = values.size() / kLine;
  for (std::size_t begin = 0; begin < whole; begin += kBlock) {
    const std::size_t count = std::min(kBlock, whole - begin);
    square_lines(values.data() + begin * kLine, count, lines.data());
    for (std::size_t i = 0; i < count; ++i) sum.add(lines[i]);
  }
  if (const std::size_t rest = values.size() % kLine; rest > 0) {
    std::array<float, kLine> last{};
    std::ranges::copy(values.last(rest), last.begin());
    square_lines(last.data(), 1, lines.data());
    sum.add(lines[0]);
  }
}

}  // namespace trireme
