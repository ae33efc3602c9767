#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "trireme/sources.h"

namespace trireme::data {

/// Returns `1x28x28`.
std::string shape_text(std::span<const std::int64_t> shape);

/// Returns the product of `shape`. Throws InvalidArgument if it is empty, an extent is not positive, or the product is
/// beyond any sample that fits in memory.
std::size_t shape_elements(std::span<const std::int64_t> shape);

/// Throws InvalidArgument unless the mean is finite and the deviation is finite and positive.
void check_normalization(const Normalization& normalization);

}  // namespace trireme::data
