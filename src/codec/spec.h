#pragma once

#include <cstddef>
#include <optional>

#include <nlohmann/json.hpp>

#include "trireme/codec.h"
#include "trireme/types.h"

namespace trireme::codec {

/// Number of consecutive values that share the scales of int8 and 1-bit; the last block may be shorter. Spans that
/// start at a multiple of this can be encoded separately: except for top-k and random-k, the concatenated bytes are
/// those of the whole.
inline constexpr std::size_t kBlock = 512;

inline constexpr float kF16Max = 65504.0f;      ///< the largest finite fp16
inline constexpr float kBF16Max = 0x1.FEp127f;  ///< the largest finite bf16

/// Throws InvalidArgument that names what is wrong and what is allowed.
void validate(const Spec& spec);

void to_json(nlohmann::json& json, const Spec& spec);
/// Throws InvalidArgument for an unknown codec, nlohmann's exceptions for missing fields.
void from_json(const nlohmann::json& json, Spec& spec);

/// Returns whether only some values are sent: topk, randomk.
bool is_sparse(const Spec& spec);

/// Returns how many of `count` > 0 values are sent: max(1, ceil(ratio * count)) for sparse codecs, else all; 0 of 0.
/// Throws InvalidArgument for a spec that `validate` rejects, and if `count` is too large for indices of 32 bits.
std::size_t kept_values(const Spec& spec, std::size_t count);

/// Returns the exact size of `count` encoded values. Throws like `kept_values`.
std::size_t encoded_bytes(const Spec& spec, std::size_t count);

/// Returns the element type as which encoded vectors may be added, element by element, so that the sum decodes to the
/// sum of the vectors; nullopt where sums of encoded vectors are meaningless. With randomk all must use the same key.
std::optional<DType> reducible_as(const Spec& spec);

/// Returns the largest |value - decoded| that `spec` allows for a finite `value` in a block whose largest magnitude is
/// `absmax` (all finite):
///   none 0; fp16 |value| / 2^11, at least 2^-25 and at least |value| - 65504; bf16 |value| / 2^8, at least 2^-134;
///   int8 absmax / 254, at least 2^-127 (and 1/10000 of it more: the scale itself is rounded); 1bit absmax;
///   topk, randomk |value|: it is exact or not sent.
double error_bound(const Spec& spec, float value, float absmax);

}  // namespace trireme::codec
