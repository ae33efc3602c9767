#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "codec/spec.h"

namespace trireme::codec {

// Values that are not finite are not hidden: where an input is NaN or infinite, something decoded is not finite in the
// same step, so that whoever checks gradients sees it. With none, fp16 and bf16 that is the element itself; with int8
// and 1-bit its whole block (NaN); with topk it is among the k; with randomk the first value sent is NaN. Where all
// inputs are finite, all that is decoded is.

/// Writes `values` into `out`, which has exactly `encoded_bytes(spec, values.size())` bytes at any alignment and does
/// not overlap. `key` is used by randomk only: it must be the same on all workers, and differ from step to step and
/// from bucket to bucket (`mix_seed(seed, step, bucket)`). Does not allocate. Throws InvalidArgument for a spec that
/// `validate` refuses.
///
/// Ties of topk go to the lower index. randomk does not scale up what it sends: with error feedback the rest comes
/// later.
void encode(const Spec& spec, std::uint64_t key, std::span<const float> values, MutableBytes out);

/// The inverse of `encode`, to its stated error, for the same spec and key; what was not sent is zero. The bytes may
/// come from anybody: throws Corrupt, with `out` untouched, where the size is not that of `out.size()` values or
/// indices are not ascending and in range. Values are not judged: they may decode to NaN. Does not allocate.
void decode(const Spec& spec, std::uint64_t key, Bytes encoded, std::span<float> out);

/// Adds to `out` what `decode` would write; of topk and randomk only what was sent is touched. One float addition per
/// value, so forms added in the order of ranks give the same bits everywhere. Throws like `decode`.
void add_decoded(const Spec& spec, std::uint64_t key, Bytes encoded, std::span<float> out);

}  // namespace trireme::codec
