#include "codec/quantize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/numbers/simd.h"
#include "codec/float_loops.h"
#include "codec/spec.h"

namespace trireme::codec {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

[[gnu::always_inline]] inline std::uint32_t largest_magnitude(const float* values, std::size_t count) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, magnitude_bits(values[i]));
  return largest;
}

/// Adding this to a float of magnitude below 2^22 rounds it to an integer, ties to even, which is then in the low bits
/// as two's complement. Unlike std::nearbyint it is one instruction on every processor.
constexpr float kRoundToInteger = 0x1.8p23f;

/// Never subnormal: its inverse would be infinite, or the scale itself too coarse.
constexpr float kSmallestScale = std::numeric_limits<float>::min();
/// One step below the largest float / 127, because that quotient was rounded up: 127 times it is infinite.
constexpr float kLargestScale =
    std::bit_cast<float>(std::bit_cast<std::uint32_t>(std::numeric_limits<float>::max() / 127.0f) - 1);

/// Encodes one block; `codes` has `count` bytes. Returns the scale.
[[gnu::always_inline]] inline float encode_block(const float* values, std::size_t count, unsigned char* codes) {
  const std::uint32_t largest = largest_magnitude(values, count);
  if (largest >= kInfinityBits) {
    std::memset(codes, 0, count);
    return kNan;
  }
  const float scale = std::clamp(std::bit_cast<float>(largest) / 127.0f, kSmallestScale, kLargestScale);
  const float inverse = 1.0f / scale;
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    codes[i] = static_cast<unsigned char>(std::bit_cast<std::uint32_t>(values[i] * inverse + kRoundToInteger));
  }
  return scale;
}

TRIREME_SIMD void encode_int8_blocks(const float* values, std::size_t count, std::byte* out) {
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t size = std::min(kBlock, count - begin);
    const float scale = encode_block(values + begin, size, reinterpret_cast<unsigned char*>(out + sizeof(float)));
    std::memcpy(out, &scale, sizeof(scale));
    out += sizeof(scale) + size;
  }
}

TRIREME_SIMD void decode_int8_blocks(const std::byte* encoded, float* out, std::size_t count) {
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t size = std::min(kBlock, count - begin);
    float scale;
    std::memcpy(&scale, encoded, sizeof(scale));
    const auto* codes = reinterpret_cast<const unsigned char*>(encoded + sizeof(scale));
    TRIREME_INDEPENDENT
    for (std::size_t i = 0; i < size; ++i) {
      out[begin + i] = static_cast<float>(static_cast<std::int8_t>(codes[i])) * scale;
    }
    encoded += sizeof(scale) + size;
  }
}

/// A 1-bit block as it is sent, except that a shorter last block has fewer sign bits.
struct SignBlock {
  static constexpr std::size_t kWords = kBlock / 32;

  float positive;  ///< the value of a clear bit
  float negative;  ///< the value of a set bit
  std::array<std::uint32_t, kWords> signs;

  /// Returns the size of a block of `count` values in bytes.
  static std::size_t bytes(std::size_t count) { return offsetof(SignBlock, signs) + (count + 7) / 8; }
};
static_assert(sizeof(SignBlock) == 2 * sizeof(float) + kBlock / 8 && std::endian::native == std::endian::little);

/// Sums of the positive and of the negative values of a whole block. In double, so that huge values do not overflow and
/// tiny ones do not vanish; by folding the block in half again and again, an order that suits vectors of any width and
/// is the same for all.
struct Sums {
  double positive;
  double negative;
};
[[gnu::always_inline]] inline Sums sum_by_sign(const float* values) {
  constexpr std::size_t kHalf = kBlock / 2;
  std::array<double, kHalf> positive;
  std::array<double, kHalf> negative;
  for (std::size_t i = 0; i < kHalf; ++i) {
    const float a = values[i];
    const float b = values[i + kHalf];
    positive[i] = static_cast<double>(a > 0 ? a : 0.0f) + static_cast<double>(b > 0 ? b : 0.0f);
    negative[i] = static_cast<double>(a < 0 ? a : 0.0f) + static_cast<double>(b < 0 ? b : 0.0f);
  }
  for (std::size_t half = kHalf / 2; half > 0; half /= 2) {
    TRIREME_INDEPENDENT
    for (std::size_t i = 0; i < half; ++i) {
      positive[i] += positive[i + half];
      negative[i] += negative[i + half];
    }
  }
  return {positive[0], negative[0]};
}
static_assert(std::has_single_bit(kBlock));

[[gnu::always_inline]] inline std::uint32_t sign_word(const float* values) {
  std::uint32_t word = 0;
  for (std::uint32_t bit = 0; bit < 32; ++bit) word |= (std::bit_cast<std::uint32_t>(values[bit]) >> 31) << bit;
  return word;
}

/// `values` is a whole block, of which the first `count` are used; the others are +0.
TRIREME_SIMD void encode_signs(const float* values, std::size_t count, SignBlock& block) {
  if (largest_magnitude(values, kBlock) >= kInfinityBits) {
    block = {.positive = kNan, .negative = kNan, .signs = {}};
    return;
  }
  std::size_t negatives = 0;
  for (std::size_t word = 0; word < SignBlock::kWords; ++word) {
    block.signs[word] = sign_word(values + 32 * word);
    negatives += static_cast<std::size_t>(std::popcount(block.signs[word]));
  }
  const Sums sums = sum_by_sign(values);
  const std::size_t positives = count - negatives;
  block.positive = positives == 0 ? 0.0f : static_cast<float>(sums.positive / static_cast<double>(positives));
  block.negative = negatives == 0 ? 0.0f : static_cast<float>(sums.negative / static_cast<double>(negatives));
}

/// Decodes a whole block.
TRIREME_SIMD void decode_signs(const SignBlock& block, float* out) {
  const float positive = block.positive;
  const float negative = block.negative;
  for (std::size_t word = 0; word < SignBlock::kWords; ++word) {
    const std::uint32_t signs = block.signs[word];
    TRIREME_INDEPENDENT
    for (std::uint32_t bit = 0; bit < 32; ++bit) {
      out[32 * word + bit] = (signs & (1u << bit)) != 0 ? negative : positive;
    }
  }
}

}  // namespace

void encode_int8(std::span<const float> values, std::byte* out) {
  encode_int8_blocks(values.data(), values.size(), out);
}

void decode_int8(const std::byte* encoded, std::span<float> out) {
  decode_int8_blocks(encoded, out.data(), out.size());
}

void encode_one_bit(std::span<const float> values, std::byte* out) {
  SignBlock block;
  for (; values.size() >= kBlock; values = values.subspan(kBlock)) {
    encode_signs(values.data(), kBlock, block);
    std::memcpy(out, &block, sizeof(block));
    out += sizeof(block);
  }
  if (values.empty()) return;
  std::array<float, kBlock> padded{};
  std::ranges::copy(values, padded.begin());
  encode_signs(padded.data(), values.size(), block);
  std::memcpy(out, &block, SignBlock::bytes(values.size()));
}

void decode_one_bit(const std::byte* encoded, std::span<float> out) {
  SignBlock block{};
  for (; out.size() >= kBlock; out = out.subspan(kBlock)) {
    std::memcpy(&block, encoded, sizeof(block));
    decode_signs(block, out.data());
    encoded += sizeof(block);
  }
  if (out.empty()) return;
  std::array<float, kBlock> padded;
  std::memcpy(&block, encoded, SignBlock::bytes(out.size()));
  decode_signs(block, padded.data());
  std::ranges::copy(std::span(padded).first(out.size()), out.begin());
}

}  // namespace trireme::codec
