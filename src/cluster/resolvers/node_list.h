#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::cluster {

/// Returns the hosts that Slurm's short form `text`, the value of `variable`, names: "n[001,007-009],b2" are n001,
/// n007, n008, n009 and b2. Throws InvalidArgument that names the variable.
std::vector<std::string> expand_node_list(const std::string& variable, const std::string& text);

/// Returns the numbers that Slurm's short form names: "2(x3),1" are 2, 2, 2, 1. Throws InvalidArgument likewise.
std::vector<std::uint32_t> expand_tasks_per_node(const std::string& variable, const std::string& text);

}  // namespace trireme::cluster
