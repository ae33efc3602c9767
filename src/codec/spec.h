#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/dtype.h"

namespace trireme::codec {

/// How a vector of floats is written. Encoded forms are little-endian and have no header: both sides know the Spec.
///
/// | kind      | bytes for n values           | what is written                                                      |
/// |-----------|------------------------------|----------------------------------------------------------------------|
/// | `none`    | 4 n                          | the values                                                           |
/// | `fp16`    | 2 n                          | IEEE half; finite values beyond +-65504 saturate there               |
/// | `bf16`    | 2 n                          | the upper half of a float, rounded; saturates as well                |
/// | `int8`    | n + 4 per block              | per block: scale = absmax / 127, then round(value / scale)           |
/// | `1bit`    | n / 8 + 8 per block          | per block: mean of the values >= 0, mean of those below; sign bits   |
/// | `topk`    | 8 k                          | the k largest magnitudes: indices in ascending order, then values    |
/// | `randomk` | 4 k                          | k values whose indices follow from a key that all workers share      |
///
/// Two means per block are the reconstruction of 1-bit SGD (Seide et al. 2014): of all pairs of values that the signs
/// could stand for, the one with the least squared error; the single mean |x| of EF-signSGD (Karimireddy et al. 2019)
/// costs 4 bytes less per block and is never closer. Top-k and random-k with memory: Stich et al. 2018.
enum class Kind { kNone, kF16, kBF16, kInt8, kOneBit, kTopK, kRandomK };

/// So many values in a row share the scales of int8 and 1-bit; the last block may be shorter. Spans that start at a
/// multiple of this can be encoded apart: put together, the bytes are those of the whole, but for top-k and random-k.
inline constexpr std::size_t kBlock = 512;

inline constexpr float kF16Max = 65504.0f;      ///< the largest finite fp16
inline constexpr float kBF16Max = 0x1.FEp127f;  ///< the largest finite bf16

/// A codec with its setting. Travels to servers as JSON, which is validated on arrival.
struct Spec {
  Kind kind = Kind::kNone;
  double ratio = 0.01;         ///< topk, randomk: the share of values sent, above 0 and at most 1
  bool error_feedback = true;  ///< what an encoding left out is added to the next one: see ErrorFeedback
  bool operator==(const Spec&) const = default;
};

/// Throws InvalidArgument that names what is wrong and what is allowed.
void validate(const Spec& spec);

/// The codec called `text`: none, fp16, bf16, int8, 1bit, topk:RATIO, randomk:RATIO (without a ratio: 0.01). Error
/// feedback is not part of the text and is on. Throws InvalidArgument.
Spec parse_spec(std::string_view text);
/// The inverse of `parse_spec`.
std::string to_string(const Spec& spec);

void to_json(nlohmann::json& json, const Spec& spec);
/// Throws InvalidArgument for a codec that does not exist, nlohmann's exceptions for fields that are missing.
void from_json(const nlohmann::json& json, Spec& spec);

/// Whether only some values are sent: topk, randomk.
bool is_sparse(const Spec& spec);

/// How many of `count` values are sent: max(1, ceil(ratio * count)) where only some are, else all. Throws
/// InvalidArgument for a spec that `validate` refuses, and where indices of 32 bits do not reach `count`.
std::size_t kept_values(const Spec& spec, std::size_t count);

/// The exact size of `count` encoded values. Throws like `kept_values`.
std::size_t encoded_bytes(const Spec& spec, std::size_t count);

/// As what element type encoded forms may be added to each other, element by element, so that the sum decodes to the
/// sum; nothing where sums of encoded forms are meaningless. With randomk all must use the same key.
std::optional<DType> reducible_as(const Spec& spec);

/// The largest |value - decoded| that `spec` allows for a finite `value` in a block whose largest magnitude is `absmax`
/// (all finite):
///   none 0; fp16 |value| / 2^11, at least 2^-25, and all beyond 65504; bf16 |value| / 2^8, at least 2^-134;
///   int8 absmax / 254, at least 2^-127 (and 1/10000 of it more: the scale itself is rounded); 1bit absmax;
///   topk, randomk |value|: it is exact or not sent.
double error_bound(const Spec& spec, float value, float absmax);

}  // namespace trireme::codec
