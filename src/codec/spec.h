#pragma once

#include <cstddef>
#include <optional>

#include <nlohmann/json.hpp>

#include "trireme/codec.h"
#include "trireme/types.h"

namespace trireme::codec {

/// So many values in a row share the scales of int8 and 1-bit; the last block may be shorter. Spans that start at a
/// multiple of this can be encoded apart: put together, the bytes are those of the whole, but for top-k and random-k.
inline constexpr std::size_t kBlock = 512;

inline constexpr float kF16Max = 65504.0f;      ///< the largest finite fp16
inline constexpr float kBF16Max = 0x1.FEp127f;  ///< the largest finite bf16

/// Throws InvalidArgument that names what is wrong and what is allowed.
void validate(const Spec& spec);

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
