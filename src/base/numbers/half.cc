#include "base/numbers/half.h"

#include <cstddef>

#include "base/error.h"
#include "base/numbers/simd.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define TRIREME_F16C 1
#include <immintrin.h>
#endif

namespace trireme {
namespace {

void check_sizes(std::size_t from, std::size_t to) {
  TRIREME_CHECK(from == to, "{} numbers to convert, room for {}", from, to);
}

// BF16: the compiler inlines the scalar functions, which have no branches, and vectorises them.

TRIREME_SIMD void widen_bf16(const std::uint16_t* __restrict from, float* __restrict to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = bf16_to_f32(from[i]);
}

TRIREME_SIMD void narrow_bf16(const float* __restrict from, std::uint16_t* __restrict to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = f32_to_bf16(from[i]);
}

// F16: x86 processors with AVX2 (since 2013) convert eight at once. Each function below converts as many as it can that
// way and returns how many; the scalar functions do the rest. Asking for the feature is a load and a test.

#ifdef TRIREME_F16C

bool has_f16c() { return __builtin_cpu_supports("avx2"); }  // every AVX2 processor has F16C, which clang cannot query

[[gnu::target("avx,f16c")]] std::size_t widen_eights(const std::uint16_t* from, float* to, std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
  return i;
}

[[gnu::target("avx,f16c")]] std::size_t narrow_eights(const float* from, std::uint16_t* to, std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  }
  return i;
}

#else

bool has_f16c() { return false; }
std::size_t widen_eights(const std::uint16_t*, float*, std::size_t) { return 0; }
std::size_t narrow_eights(const float*, std::uint16_t*, std::size_t) { return 0; }

#endif

}  // namespace

void f16_to_f32(std::span<const std::uint16_t> from, std::span<float> to) {
  check_sizes(from.size(), to.size());
  const std::size_t done = has_f16c() ? widen_eights(from.data(), to.data(), from.size()) : 0;
  for (std::size_t i = done; i < from.size(); ++i) to[i] = f16_to_f32(from[i]);
}

void f32_to_f16(std::span<const float> from, std::span<std::uint16_t> to) {
  check_sizes(from.size(), to.size());
  const std::size_t done = has_f16c() ? narrow_eights(from.data(), to.data(), from.size()) : 0;
  for (std::size_t i = done; i < from.size(); ++i) to[i] = f32_to_f16(from[i]);
}

void bf16_to_f32(std::span<const std::uint16_t> from, std::span<float> to) {
  check_sizes(from.size(), to.size());
  widen_bf16(from.data(), to.data(), from.size());
}

void f32_to_bf16(std::span<const float> from, std::span<std::uint16_t> to) {
  check_sizes(from.size(), to.size());
  narrow_bf16(from.data(), to.data(), from.size());
}

}  // namespace trireme
