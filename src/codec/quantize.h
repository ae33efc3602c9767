#pragma once

#include <span>

#include "base/bytes.h"

namespace trireme::codec {

// int8 and 1-bit: blocks of kBlock values, each with its scales in front. Byte counts are those of `encoded_bytes`; the
// caller checks them. A block with a value that is not finite has NaN for scales, and so decodes to NaN.

/// Per block: float scale, then one signed byte per value: round(value / scale), ties to even.
void encode_int8(std::span<const float> values, std::byte* out);
void decode_int8(const std::byte* encoded, std::span<float> out);

/// Per block: float mean of the values without sign bit, float mean of those with it, then the sign bits, lowest bit of
/// the first byte first; bits beyond the last value are zero.
void encode_one_bit(std::span<const float> values, std::byte* out);
/// Bits beyond the last value are ignored.
void decode_one_bit(const std::byte* encoded, std::span<float> out);

}  // namespace trireme::codec
