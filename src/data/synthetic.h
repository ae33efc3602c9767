#pragma once

#include <cstdint>

#include "data/dataset.h"

namespace trireme::data {

struct SyntheticOptions {
  std::uint64_t train_samples = 60000;
  std::uint64_t test_samples = 10000;
  std::uint64_t seed = 1;  ///< another seed, other classes: a different problem of the same difficulty
};

/// A generated classification problem of the shape of Fashion-MNIST (1x28x28, 10 classes), for machines without data.
///
/// Each class is a smooth random pattern in two variants; a sample shows its class's pattern moved by some pixels and
/// with its own contrast, half covered by the pattern of another class, under noise. LeNet learns it to about 98 % in
/// one epoch of batch 64, most of it after the first hundred steps; a linear model stays near 90 %. Train and test
/// share the patterns, not the samples.
///
/// Samples are made on read from (seed, part, index) alone, cost no memory, and have mean about 0 and deviation about
/// 1. Throws InvalidArgument if a part would be empty.
Split make_synthetic(const SyntheticOptions& options = {});

}  // namespace trireme::data
