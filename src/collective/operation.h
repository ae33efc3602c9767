#pragma once

#include <string>

#include "trireme/collective.h"

namespace trireme::collective {

/// Completes what is implied (equal counts) and checks what this rank can check alone. Throws InvalidArgument.
void validate(Operation& operation, Rank rank, std::uint32_t size);

/// Returns "all_reduce sum of 1000 F32": for messages.
std::string describe(const Operation& operation);

}  // namespace trireme::collective
