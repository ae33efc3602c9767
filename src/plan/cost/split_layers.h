#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme::plan {

/// Cuts a list of layers into `stages` runs of neighbours, none empty, so that the most expensive stage is as cheap as
/// possible. Element i of the result is where stage i begins. Every layer is in exactly one stage, also where the
/// numbers do not divide: 30 equal layers over 4 stages are 8, 8, 7 and 7. Throws InvalidArgument unless 1 <= stages <=
/// layers and all costs are finite and not negative. A pure function of its arguments.
std::vector<std::size_t> split_layers(std::span<const double> costs, std::size_t stages);

}  // namespace trireme::plan
