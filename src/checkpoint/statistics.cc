#include "checkpoint/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/numbers/half.h"

namespace trireme::checkpoint {
namespace {

template <typename T>
double load_as(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return static_cast<double>(value);
}

double element(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kF32:
      return load_as<float>(at);
    case DType::kF64:
      return load_as<double>(at);
    case DType::kF16:
      return f16_to_f32(load_le<std::uint16_t>({at, 2}));
    case DType::kBF16:
      return bf16_to_f32(load_le<std::uint16_t>({at, 2}));
    case DType::kI8:
      return load_as<std::int8_t>(at);
    case DType::kU8:
    case DType::kBool:
      return load_as<std::uint8_t>(at);
    case DType::kI16:
      return load_as<std::int16_t>(at);
    case DType::kI32:
      return load_as<std::int32_t>(at);
    case DType::kI64:
      return load_as<std::int64_t>(at);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

TensorStatistics statistics(DType dtype, Bytes bytes) {
  const std::size_t size = size_of(dtype);
  TensorStatistics result{.elements = bytes.size() / size};
  double sum = 0;
  double squares = 0;
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  for (std::size_t i = 0; i < bytes.size(); i += size) {
    const double value = element(dtype, bytes.data() + i);
    if (!std::isfinite(value)) {
      ++result.not_finite;
      continue;
    }
    sum += value;
    squares += value * value;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  const std::uint64_t finite = result.elements - result.not_finite;
  if (finite == 0) return result;
  result.mean = sum / static_cast<double>(finite);
  result.min = least;
  result.max = most;
  result.norm = std::sqrt(squares);
  return result;
}

TensorDifference difference(DType dtype, Bytes a, Bytes b) {
  const std::size_t size = size_of(dtype);
  TensorDifference result;
  for (std::size_t i = 0; i < a.size(); i += size) {
    if (std::memcmp(a.data() + i, b.data() + i, size) == 0) continue;
    ++result.differing;
    const double gap = std::abs(element(dtype, a.data() + i) - element(dtype, b.data() + i));
    result.largest = std::max(result.largest, std::isnan(gap) ? std::numeric_limits<double>::infinity() : gap);
  }
  return result;
}

}  // namespace trireme::checkpoint
