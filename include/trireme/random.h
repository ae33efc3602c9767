#pragma once

#include <cstdint>

namespace trireme {

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

}  // namespace trireme
