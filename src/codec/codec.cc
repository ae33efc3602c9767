#include "codec/codec.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/numbers/half.h"
#include "codec/float_loops.h"
#include "codec/quantize.h"
#include "codec/sparse.h"

namespace trireme::codec {
namespace {

/// Values converted at a time where they pass through a buffer of our own: stays in the first-level cache.
constexpr std::size_t kTile = 2 * kBlock;

/// Goes through a tile because encoded bytes may be at odd addresses, where a two-byte number cannot be stored.
void encode_halves(Kind kind, std::span<const float> values, std::byte* out) {
  std::array<float, kTile> finite;
  std::array<std::uint16_t, kTile> halves;
  for (std::size_t begin = 0; begin < values.size(); begin += kTile) {
    const std::size_t count = std::min(kTile, values.size() - begin);
    const auto from = std::span(finite).first(count);
    const auto to = std::span(halves).first(count);
    saturate(values.subspan(begin, count), kind == Kind::kF16 ? kF16Max : kBF16Max, from);
    kind == Kind::kF16 ? f32_to_f16(from, to) : f32_to_bf16(from, to);
    std::memcpy(out + begin * sizeof(std::uint16_t), halves.data(), to.size_bytes());
  }
}

void decode_halves(Kind kind, const std::byte* encoded, std::span<float> out) {
  std::array<std::uint16_t, kTile> halves;
  for (std::size_t begin = 0; begin < out.size(); begin += kTile) {
    const std::size_t count = std::min(kTile, out.size() - begin);
    const auto from = std::span(halves).first(count);
    const auto to = out.subspan(begin, count);
    std::memcpy(halves.data(), encoded + begin * sizeof(std::uint16_t), from.size_bytes());
    kind == Kind::kF16 ? f16_to_f32(from, to) : bf16_to_f32(from, to);
  }
}

void check_size(const Spec& spec, Bytes encoded, std::size_t count) {
  const std::size_t expected = encoded_bytes(spec, count);
  if (encoded.size() != expected) {
    fail<Corrupt>(
        "{} values of codec '{}' are {} bytes, but {} came: the bytes are damaged, or the sender uses another codec",
        count, to_string(spec), expected, encoded.size());
  }
}

/// Decodes bytes of the right size, of a codec that sends all values.
void decode_dense(const Spec& spec, Bytes encoded, std::span<float> out) {
  switch (spec.kind) {
    case Kind::kNone:
      if (!out.empty()) std::memcpy(out.data(), encoded.data(), encoded.size());
      return;
    case Kind::kF16:
    case Kind::kBF16:
      return decode_halves(spec.kind, encoded.data(), out);
    case Kind::kInt8:
      return decode_int8(encoded.data(), out);
    case Kind::kOneBit:
      return decode_one_bit(encoded.data(), out);
    case Kind::kTopK:
    case Kind::kRandomK:
      break;
  }
  check_failed("a codec that sends all values", to_string(spec), __FILE__, __LINE__);
}

/// Adds bytes of the right size, of a codec that sends some values.
void add_sparse(const Spec& spec, std::uint64_t key, Bytes encoded, std::span<float> out) {
  const std::size_t kept = kept_values(spec, out.size());
  spec.kind == Kind::kTopK ? add_top(encoded, kept, out) : add_random(key, encoded, kept, out);
}

}  // namespace

void encode(const Spec& spec, std::uint64_t key, std::span<const float> values, MutableBytes out) {
  TRIREME_CHECK(out.size() == encoded_bytes(spec, values.size()), "{} values of codec {} into {} bytes", values.size(),
                to_string(spec), out.size());
  switch (spec.kind) {
    case Kind::kNone:
      if (!values.empty()) std::memcpy(out.data(), values.data(), values.size_bytes());
      return;
    case Kind::kF16:
    case Kind::kBF16:
      return encode_halves(spec.kind, values, out.data());
    case Kind::kInt8:
      return encode_int8(values, out.data());
    case Kind::kOneBit:
      return encode_one_bit(values, out.data());
    case Kind::kTopK:
      return encode_top(values, kept_values(spec, values.size()), out);
    case Kind::kRandomK:
      return encode_random(key, values, kept_values(spec, values.size()), out);
  }
}

void decode(const Spec& spec, std::uint64_t key, Bytes encoded, std::span<float> out) {
  check_size(spec, encoded, out.size());
  if (!is_sparse(spec)) return decode_dense(spec, encoded, out);
  std::ranges::fill(out, 0.0f);
  add_sparse(spec, key, encoded, out);
}

void add_decoded(const Spec& spec, std::uint64_t key, Bytes encoded, std::span<float> out) {
  check_size(spec, encoded, out.size());
  if (is_sparse(spec)) return add_sparse(spec, key, encoded, out);
  std::array<float, kTile> decoded;
  for (std::size_t begin = 0; begin < out.size(); begin += kTile) {
    const auto sum = out.subspan(begin, std::min(kTile, out.size() - begin));
    const auto tile = std::span(decoded).first(sum.size());
    decode_dense(spec, encoded.subspan(encoded_bytes(spec, begin), encoded_bytes(spec, sum.size())), tile);
    add(sum, tile, sum);
  }
}

}  // namespace trireme::codec
