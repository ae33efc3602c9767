#include "tests/collective/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/numbers/half.h"
#include "base/random.h"

namespace trireme::collective {
namespace {

constexpr std::size_t kRankShift = 97;  // each rank's input begins elsewhere in the same numbers

std::size_t pool_elements(DType dtype) { return (3u << 20) / size_of(dtype) + 4096; }

/// Calls `use(stored, up, down)` with a value of the type that elements have in memory, and the way to the type they
/// are combined in, and back.
template <typename Use>
auto with_type(DType dtype, Use use) {
  const auto same = [](auto value) { return value; };
  switch (dtype) {
    case DType::kF32:
      return use(float{}, same, same);
    case DType::kF64:
      return use(double{}, same, same);
    case DType::kF16:
      return use(
          std::uint16_t{}, [](std::uint16_t half) { return f16_to_f32(half); },
          [](float value) { return f32_to_f16(value); });
    case DType::kBF16:
      return use(
          std::uint16_t{}, [](std::uint16_t half) { return bf16_to_f32(half); },
          [](float value) { return f32_to_bf16(value); });
    case DType::kI8:
      return use(std::int8_t{}, same, same);
    case DType::kU8:
      return use(std::uint8_t{}, same, same);
    case DType::kI16:
      return use(std::int16_t{}, same, same);
    case DType::kI32:
      return use(std::int32_t{}, same, same);
    case DType::kI64:
      return use(std::int64_t{}, same, same);
    case DType::kBool:
      break;
  }
  fail<InvalidArgument>("truth values cannot be reduced");
}

template <typename T>
T wrapping(ReduceOp op, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return op == ReduceOp::kProduct ? a * b : a + b;
  } else {
    const auto x = static_cast<std::uint64_t>(a);
    const auto y = static_cast<std::uint64_t>(b);
    return static_cast<T>(op == ReduceOp::kProduct ? x * y : x + y);
  }
}

template <typename T>
T fold(ReduceOp op, const std::vector<T>& values, std::size_t first, std::size_t count) {
  if (count == 1) return values[first];
  const std::size_t left = left_lanes(static_cast<Lane>(count));
  const T a = fold(op, values, first, left);
  const T b = fold(op, values, first + left, count - left);
  if (op == ReduceOp::kMin) return a < b ? a : b;
  if (op == ReduceOp::kMax) return a > b ? a : b;
  return wrapping(op, a, b);
}

template <typename T>
T divided(T sum, std::uint32_t by) {
  if constexpr (std::is_floating_point_v<T>) {
    return sum / static_cast<T>(by);
  } else {
    return static_cast<T>(static_cast<std::int64_t>(sum) / static_cast<std::int64_t>(by));
  }
}

/// Numbers without order: of floats such that sums of a few are rounded and products stay finite; of integers any.
std::vector<std::byte> make_pool(DType dtype) {
  RandomStream random(mix_seed(1, static_cast<std::uint64_t>(dtype)));
  return with_type(dtype, [&](auto stored, auto up, auto down) {
    using Stored = decltype(stored);
    std::vector<std::byte> pool(pool_elements(dtype) * sizeof(Stored));
    for (std::size_t i = 0; i < pool_elements(dtype); ++i) {
      using Value = decltype(up(stored));
      Value value;
      if constexpr (std::is_floating_point_v<Value>) {
        const std::uint64_t bits = random.next();
        const double magnitude = (1 + static_cast<double>(bits >> 12) * 0x1p-52) * (bits % 4 == 0 ? 2 : 0.5);
        value = static_cast<Value>(bits % 8 < 3 ? -magnitude : magnitude);
      } else {
        value = static_cast<Value>(random.next());
      }
      const Stored element = down(value);
      std::memcpy(pool.data() + i * sizeof(Stored), &element, sizeof(Stored));
    }
    return pool;
  });
}

/// One unit in the last place of 1.
double unit(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 0x1p-52;
    case DType::kF32:
      return 0x1p-23;
    case DType::kF16:
      return 0x1p-10;
    case DType::kBF16:
      return 0x1p-7;
    default:
      return 0;  // integers are exact
  }
}

/// How far two elements are apart, in units in the last place.
double distance(DType dtype, const std::byte* a, const std::byte* b) {
  return with_type(dtype, [&](auto stored, auto up, auto) {
    auto other = stored;
    std::memcpy(&stored, a, sizeof(stored));
    std::memcpy(&other, b, sizeof(other));
    const auto x = static_cast<double>(up(stored));
    return std::abs(x - static_cast<double>(up(other))) / (unit(dtype) * std::max(4.0, std::abs(x)));
  });
}

const std::vector<std::byte>& pool_of(DType dtype) {
  static std::mutex mutex;
  static std::map<DType, std::vector<std::byte>> pools;  // guarded by mutex; what is in it stays where it is
  const std::lock_guard lock(mutex);
  auto& pool = pools[dtype];
  if (pool.empty()) pool = make_pool(dtype);
  return pool;
}

}  // namespace

const std::vector<DType>& all_types() {
  static const std::vector<DType> types = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8,
                                           DType::kU8,  DType::kI16, DType::kI32, DType::kI64};
  return types;
}

const std::vector<ReduceOp>& all_ops() {
  static const std::vector<ReduceOp> ops = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax,
                                            ReduceOp::kProduct};
  return ops;
}

std::vector<std::byte> test_input(DType dtype, std::size_t count, Rank rank) {
  const std::size_t element = size_of(dtype);
  const std::byte* begin = pool_of(dtype).data() + rank * kRankShift * element;
  TRIREME_CHECK(rank * kRankShift + count <= pool_elements(dtype), "{} elements", count);
  return {begin, begin + count * element};
}

std::vector<std::byte> slow_reduction(DType dtype, ReduceOp op, std::size_t count, std::uint32_t ranks) {
  return with_type(dtype, [&](auto stored, auto up, auto down) {
    using Stored = decltype(stored);
    std::vector<std::vector<std::byte>> inputs;
    for (Rank rank = 0; rank < ranks; ++rank) inputs.push_back(test_input(dtype, count, rank));
    std::vector<std::byte> result(count * sizeof(Stored));
    std::vector<decltype(up(stored))> values(ranks);
    for (std::size_t i = 0; i < count; ++i) {
      for (Rank rank = 0; rank < ranks; ++rank) {
        std::memcpy(&stored, inputs[rank].data() + i * sizeof(Stored), sizeof(Stored));
        values[rank] = up(stored);
      }
      const auto folded = fold(op, values, 0, ranks);
      stored = down(op == ReduceOp::kAverage ? divided(folded, ranks) : folded);
      std::memcpy(result.data() + i * sizeof(Stored), &stored, sizeof(Stored));
    }
    return result;
  });
}

std::string difference(DType dtype, Bytes expected, Bytes got, double rounding) {
  if (expected.size() != got.size()) return fmt::format("{} bytes instead of {}", got.size(), expected.size());
  if (expected.empty() || std::memcmp(expected.data(), got.data(), got.size()) == 0) return "";
  const std::size_t element = size_of(dtype);
  std::size_t first = 0;
  std::size_t wrong = 0;
  for (std::size_t i = got.size() / element; i-- > 0;) {
    if (std::memcmp(expected.data() + i * element, got.data() + i * element, element) == 0) continue;
    if (rounding > 0 && distance(dtype, expected.data() + i * element, got.data() + i * element) <= rounding) continue;
    first = i;
    ++wrong;
  }
  if (wrong == 0) return "";
  const auto text = [&](Bytes bytes) {
    return with_type(dtype, [&](auto stored, auto up, auto) {
      std::memcpy(&stored, bytes.data() + first * element, element);
      return fmt::format("{}", up(stored));
    });
  };
  return fmt::format("{} of {} elements are wrong; the first is number {}: {} instead of {}", wrong,
                     got.size() / element, first, text(got), text(expected));
}

}  // namespace trireme::collective
