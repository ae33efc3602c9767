#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

/// Mixes integers into one seed; the same on every machine. Order matters.
std::uint64_t mix_seed(std::uint64_t a, std::uint64_t b, std::uint64_t c = 0);

/// A small generator (SplitMix64, Steele et al. 2014) whose stream is the same on every machine and compiler, which the
/// distributions of <random> do not guarantee. Not for secrets.
class RandomStream {
 public:
  explicit RandomStream(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next();

  /// Returns a uniform number in [0, bound); bound > 0.
  std::uint64_t below(std::uint64_t bound);

  /// Returns a uniform number in [0, 1).
  double uniform();

  /// Returns a standard normal number (Box-Muller).
  double normal();

 private:
  std::uint64_t state_;
};

/// Returns the numbers 0..count-1 in an order determined by (seed, epoch).
std::vector<std::uint64_t> shuffled(std::uint64_t count, std::uint64_t seed, std::uint64_t epoch);

/// Returns cryptographically strong random bytes as lower-case hexadecimal text of 2 * `bytes` characters.
std::string random_hex(std::size_t bytes);

}  // namespace trireme
