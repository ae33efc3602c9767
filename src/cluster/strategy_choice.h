#pragma once

#include <cstdint>
#include <string>

#include "trireme/strategy.h"

namespace trireme::cluster {

/// Returns the strategy with its consistency where it has one, for people: "ps:ssp:4", "allreduce".
std::string describe(const StrategyChoice& choice, const std::string& consistency);

/// Throws InvalidArgument, which says what to do, if the strategy does not work with that many servers.
void check_servers(const StrategyChoice& choice, std::uint32_t servers);

}  // namespace trireme::cluster
