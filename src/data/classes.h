#pragma once

#include <span>
#include <string_view>

#include "trireme/schema.h"

namespace trireme::data {

/// Throws InvalidArgument naming the sample, in `where`, if a number of `field` is not one of its classes. `bytes`
/// holds sample after sample.
void check_classes(const Field& field, std::span<const std::byte> bytes, std::string_view where);

}  // namespace trireme::data
