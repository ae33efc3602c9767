#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "codec/spec.h"

namespace trireme::codec {

// Values that are not finite are not hidden: where an input is NaN or infinite, some decoded value of the same step is
// not finite, so that a check of the gradients sees it. With none, fp16 and bf16 it is the element itself; with int8
// and 1-bit its whole block (NaN); with topk it is among the k; with randomk the first value sent is NaN. Where all
// inputs are finite, all decoded values are.

/// Encodes `values` into `out`, which has exactly `encoded_bytes(spec, values.size())` bytes at any alignment and does
/// not overlap. Only randomk uses `key`: it must be the same on all workers, and differ from step to step and from
/// bucket to bucket (`mix_seed(seed, step, bucket)`). Does not allocate. Throws InvalidArgument for a spec that
/// `validate` rejects.
///
/// Ties of topk go to the lower index. randomk does not scale up what it sends: error feedback sends the rest later.
void encode(const Spec& spec, std::uint64_t key, std::span<const float> values, MutableBytes out);

/// Decodes what `encode` wrote, up to its stated error, for the same spec and key; what was not sent is zero. The bytes
/// are not trusted, and may be in memory that a peer changes meanwhile: what is checked is read once. Throws Corrupt if
/// their size is not that of `out.size()` values (`out` is untouched then), or if indices are not ascending and in
/// range (`out` then holds a part of the values). Values are not checked: they may decode to NaN. Does not allocate.
void decode(const Spec& spec, std::uint64_t key, Bytes encoded, std::span<float> out);

/// Adds to `out` what `decode` would write; topk and randomk touch only the elements sent. One float addition per
/// value, so encoded vectors added in the order of ranks give the same bits everywhere. Throws like `decode`.
void add_decoded(const Spec& spec, std::uint64_t key, Bytes encoded, std::span<float> out);

}  // namespace trireme::codec
