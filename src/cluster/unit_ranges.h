#pragma once

#include <cstdint>
#include <vector>

#include "cluster/protocol.h"

namespace trireme::cluster {

// Sets of units as lists of ranges that do not overlap, in any order. Pure.

std::uint64_t count_units(const std::vector<UnitRange>& ranges);

/// Returns `ranges` without the units of `gone`.
std::vector<UnitRange> without(const std::vector<UnitRange>& ranges, const std::vector<UnitRange>& gone);

}  // namespace trireme::cluster
