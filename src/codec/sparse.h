#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace trireme::codec {

// top-k and random-k: `kept` of the values are sent. The caller checks byte counts: 8 * kept for top-k (indices of 32
// bits, then values), 4 * kept for random-k (values); at any alignment. 1 <= kept <= values, or both are zero.

/// Writes the values of the `kept` largest magnitudes (NaN and infinity above all; ties to the lower index), in index
/// order. Finds the smallest magnitude sent by counting digits of its bits, so the time does not depend on `kept`.
void encode_top(std::span<const float> values, std::size_t kept, MutableBytes out);

/// Adds each value sent to out[index]. Each index is read once and checked before it is used: the bytes may be in
/// memory of a peer that changes them meanwhile. Throws Corrupt unless the indices are ascending and all below
/// `out.size()`; the values before the wrong one were added then.
void add_top(Bytes encoded, std::size_t kept, std::span<float> out);

/// Sets values[index] = 0 for every index sent. Throws like `add_top`.
void clear_top(Bytes encoded, std::size_t kept, std::span<float> values);

/// Writes the values at the indices that `key` draws; the first becomes NaN if any of `values` is not finite.
void encode_random(std::uint64_t key, std::span<const float> values, std::size_t kept, MutableBytes out);

/// Adds each value sent to out[index], at the indices that `key` draws.
void add_random(std::uint64_t key, Bytes encoded, std::size_t kept, std::span<float> out);

/// Sets values[index] = 0 at the indices that `key` draws.
void clear_random(std::uint64_t key, std::size_t kept, std::span<float> values);

}  // namespace trireme::codec
