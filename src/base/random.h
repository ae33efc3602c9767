#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/random.h"

namespace trireme {

/// Mixes integers into one seed; the same on every machine. Order matters.
std::uint64_t mix_seed(std::uint64_t a, std::uint64_t b, std::uint64_t c = 0);

/// Returns the numbers 0..count-1 in an order determined by (seed, epoch).
std::vector<std::uint64_t> shuffled(std::uint64_t count, std::uint64_t seed, std::uint64_t epoch);

/// Returns cryptographically strong random bytes as lower-case hexadecimal text of 2 * `bytes` characters.
std::string random_hex(std::size_t bytes);

}  // namespace trireme
