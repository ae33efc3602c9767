#include "collective/reduction.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "base/numbers/half.h"
#include "base/numbers/simd.h"

namespace trireme::collective {
namespace {

// The loops. Elements are read and written by memcpy of one element, which the compiler turns into unaligned loads and
// stores, and vectorises.

template <typename T>
T load(const std::byte* array, std::size_t index) {
  T value;
  std::memcpy(&value, array + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void store(std::byte* array, std::size_t index, T value) {
  std::memcpy(array + index * sizeof(T), &value, sizeof(T));
}

struct Add {
  template <typename T>
  T operator()(T a, T b) const {
    return a + b;
  }
};

struct Multiply {
  template <typename T>
  T operator()(T a, T b) const {
    return a * b;
  }
};

/// Applies a sum or product; on integers in an unsigned type that is not promoted to a signed one, so that it wraps.
template <typename T, typename Operator>
T apply(Operator op, T a, T b) {
  if constexpr (std::integral<T>) {
    using Wrapping = std::make_unsigned_t<std::common_type_t<T, int>>;
    return static_cast<T>(op(static_cast<Wrapping>(a), static_cast<Wrapping>(b)));
  } else {
    return op(a, b);
  }
}

struct Min {};
struct Max {};

template <typename T>
bool is_nan(T value) {
  if constexpr (std::floating_point<T>) return std::isnan(value);
  return false;
}

// A NaN on either side wins: on the right, because it is neither less nor greater. No branches: hence `|`.

template <typename T>
T apply(Min, T a, T b) {
  return (static_cast<int>(a < b) | static_cast<int>(is_nan(a))) != 0 ? a : b;
}

template <typename T>
T apply(Max, T a, T b) {
  return (static_cast<int>(a > b) | static_cast<int>(is_nan(a))) != 0 ? a : b;
}

/// Computes out[i] = a[i] op b[i]; `out` may be `a` or `b`.
template <typename T, typename Operator>
TRIREME_SIMD void combine_arrays(const std::byte* a, const std::byte* b, std::byte* out, std::size_t count) {
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) store(out, i, apply(Operator(), load<T>(a, i), load<T>(b, i)));
}

/// Computes to[i] = from[i] / divisor; `to` may be `from`.
template <typename T>
TRIREME_SIMD void divide_array(const std::byte* from, std::byte* to, std::size_t count, std::uint64_t divisor) {
  // Integers are divided in 64 bits: the divisor may exceed the range of their own type.
  using Wide = std::conditional_t<std::integral<T>, std::int64_t, T>;
  const Wide wide_divisor = static_cast<Wide>(divisor);
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    store(to, i, static_cast<T>(static_cast<Wide>(load<T>(from, i)) / wide_divisor));
  }
}

using Combine = void (*)(const std::byte* a, const std::byte* b, std::byte* out, std::size_t count);

template <typename T>
Combine combine_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return combine_arrays<T, Add>;
    case ReduceOp::kMin:
      return combine_arrays<T, Min>;
    case ReduceOp::kMax:
      return combine_arrays<T, Max>;
    case ReduceOp::kProduct:
      return combine_arrays<T, Multiply>;
  }
  check_failed("op is one of ReduceOp", fmt::format("got {}", static_cast<int>(op)), __FILE__, __LINE__);
}

// The element types. Each is combined as values of its type `Value`, one block at a time.

template <typename T>
struct Plain {
  using Value = T;
  static constexpr bool kIsValue = true;  ///< elements are values as they are
  static constexpr std::size_t kSize = sizeof(T);

  /// Returns where the values of `count` elements are: `from` itself, or `space`, to which they were converted.
  static const std::byte* widen(const std::byte* from, std::size_t /*count*/, std::byte* /*space*/) { return from; }
};

using WidenFunction = void (*)(std::span<const std::uint16_t>, std::span<float>);
using NarrowFunction = void (*)(std::span<const float>, std::span<std::uint16_t>);

template <WidenFunction Widen, NarrowFunction Narrow>
struct Half {
  using Value = float;
  static constexpr bool kIsValue = false;
  static constexpr std::size_t kSize = sizeof(std::uint16_t);

  static const std::byte* widen(const std::byte* from, std::size_t count, std::byte* space) {
    std::uint16_t aligned[FoldOrder::kLargeBlock / sizeof(Value)];
    const auto* halves = reinterpret_cast<const std::uint16_t*>(from);
    if (!is_aligned(from)) halves = static_cast<std::uint16_t*>(std::memcpy(aligned, from, count * kSize));
    Widen({halves, count}, {reinterpret_cast<float*>(space), count});
    return space;
  }

  /// Writes `count` values to `to` as elements.
  static void narrow(const std::byte* values, std::byte* to, std::size_t count) {
    std::uint16_t aligned[FoldOrder::kLargeBlock / sizeof(Value)];
    auto* halves = is_aligned(to) ? reinterpret_cast<std::uint16_t*>(to) : aligned;
    Narrow({reinterpret_cast<const float*>(values), count}, {halves, count});
    if (halves == aligned) std::memcpy(to, aligned, count * kSize);
  }

 private:
  static bool is_aligned(const std::byte* address) {
    return reinterpret_cast<std::uintptr_t>(address) % alignof(std::uint16_t) == 0;
  }
};

/// Copies around the caches; follow it by `stream_fence`.
void stream_copy(const std::byte* from, std::byte* to, std::size_t bytes) {
#ifdef __SSE2__
  const std::size_t before = std::min(bytes, (-reinterpret_cast<std::uintptr_t>(to)) % sizeof(__m128i));
  std::memcpy(to, from, before);
  std::size_t done = before;
  for (; done + sizeof(__m128i) <= bytes; done += sizeof(__m128i)) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + done),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + done)));
  }
  std::memcpy(to + done, from + done, bytes - done);
#else
  std::memcpy(to, from, bytes);
#endif
}

/// Makes streamed bytes visible before this thread's later writes.
void stream_fence() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

/// One call of `reduce`.
template <typename Element>
class Reduction {
 public:
  Reduction(ReduceOp op, std::span<const Contribution> parts, std::uint64_t divisor)
      : combine_(combine_of<Value>(op)), average_(op == ReduceOp::kAverage), divisor_(divisor), parts_(parts) {}

  void run(Lane lanes, std::size_t count, std::byte* out, bool stream) const {
    if (!average_ && !stream && parts_.size() == 1) {
      if (out != parts_[0].values) std::memcpy(out, parts_[0].values, count * Element::kSize);
    } else if (!average_ && !stream && parts_.size() == 2 && Element::kIsValue) {  // the usual case needs no blocks
      combine_(parts_[0].values, parts_[1].values, out, count);
    } else {
      run_blocks(FoldOrder(lanes, parts_), count, out, stream);
    }
  }

 private:
  using Value = typename Element::Value;

  /// Separate from `run` so that only this uses so much stack.
  [[gnu::noinline]] void run_blocks(const FoldOrder& order, std::size_t count, std::byte* out, bool stream) const {
    // Streamed output also goes in small blocks: long bursts of it delay the reads.
    const std::size_t block_bytes =
        stream ? FoldOrder::kSmallBlock : FoldOrder::block_bytes(parts_.size(), count * Element::kSize);
    const std::size_t block = block_bytes / sizeof(Value);
    const std::byte* stack[FoldOrder::kLevels];
    alignas(64) std::byte space[FoldOrder::kLevels][FoldOrder::kLargeBlock];
    for (std::size_t begin = 0; begin < count; begin += block) {
      const std::size_t n = std::min(block, count - begin);
      std::byte* out_here = out + begin * Element::kSize;
      // Only the last step writes to `out`, since it may be one of the parts.
      std::byte* result = Element::kIsValue && !stream ? out_here : space[0];
      order.walk(
          [&](std::size_t part, std::size_t level) {
            stack[level] = Element::widen(parts_[part].values + begin * Element::kSize, n, space[level]);
          },
          [&](std::size_t level, bool is_last) {
            std::byte* values = is_last ? result : space[level];
            combine_(stack[level], stack[level + 1], values, n);
            stack[level] = values;
          });
      if (average_) {
        divide_array<Value>(stack[0], result, n, divisor_);
        stack[0] = result;
      }
      if constexpr (!Element::kIsValue) {
        std::byte* elements = stream ? space[1] : out_here;
        Element::narrow(stack[0], elements, n);
        stack[0] = elements;
      }
      if (stream) stream_copy(stack[0], out_here, n * Element::kSize);
    }
    if (stream) stream_fence();
  }

  Combine combine_;
  bool average_;
  std::uint64_t divisor_;
  std::span<const Contribution> parts_;
};

/// Calls `function` with the element type (a Plain or Half) of `dtype`.
template <typename Function>
void with_element(DType dtype, Function function) {
  switch (dtype) {
    case DType::kF32:
      return function(Plain<float>());
    case DType::kF64:
      return function(Plain<double>());
    case DType::kF16:
      return function(Half<f16_to_f32, f32_to_f16>());
    case DType::kBF16:
      return function(Half<bf16_to_f32, f32_to_bf16>());
    case DType::kI8:
      return function(Plain<std::int8_t>());
    case DType::kU8:
      return function(Plain<std::uint8_t>());
    case DType::kI16:
      return function(Plain<std::int16_t>());
    case DType::kI32:
      return function(Plain<std::int32_t>());
    case DType::kI64:
      return function(Plain<std::int64_t>());
    case DType::kBool:
      break;
  }
  fail<InvalidArgument>("values of type {} cannot be reduced: convert them to U8 (min is 'all', max is 'any')",
                        name_of(dtype));
}

}  // namespace

std::string_view name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kAverage:
      return "average";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kProduct:
      return "product";
  }
  check_failed("op is one of ReduceOp", fmt::format("got {}", static_cast<int>(op)), __FILE__, __LINE__);
}

void reduce(DType dtype, ReduceOp op, Lane lanes, std::span<const Contribution> parts, std::size_t count,
            std::byte* out, std::uint64_t divisor, bool stream) {
  TRIREME_CHECK(!parts.empty() && parts.back().lanes.end() <= lanes, "{} contributions over {} lanes", parts.size(),
                lanes);
  constexpr std::uint64_t kLargestDivisor = std::numeric_limits<std::int64_t>::max();
  TRIREME_CHECK(op != ReduceOp::kAverage || (divisor >= 1 && divisor <= kLargestDivisor), "divisor {}", divisor);
  const bool in_place = std::ranges::find(parts, out, &Contribution::values) != parts.end();
  with_element(dtype, [&]<typename Element>(Element) {
    if (count > 0) Reduction<Element>(op, parts, divisor).run(lanes, count, out, stream && !in_place);
  });
}

void combine(DType dtype, ReduceOp op, std::byte* into, const std::byte* from, std::size_t count) {
  const Contribution parts[] = {{{0, 1}, into}, {{1, 1}, from}};
  reduce(dtype, op == ReduceOp::kAverage ? ReduceOp::kSum : op, 2, parts, count, into, 1);
}

void divide(DType dtype, std::byte* values, std::size_t count, std::uint64_t divisor) {
  const Contribution whole[] = {{{0, 1}, values}};
  reduce(dtype, ReduceOp::kAverage, 1, whole, count, values, divisor);
}

}  // namespace trireme::collective
