#pragma once

#include <cstdint>
#include <string>

#include "trireme/strategy.h"

namespace trireme::cluster {

/// Returns the strategy with its consistency where it has one, for people: "ps:ssp:4", "allreduce".
std::string describe(const StrategyChoice& choice, const std::string& consistency);

/// Returns how many of `workers` have samples of their own: those that divide a model among them have the same. Throws
/// InvalidArgument if the mesh needs more workers, or other sizes.
std::uint32_t data_workers(const MeshChoice& mesh, std::uint32_t workers);

/// Returns how many lanes a batch is cut into unless somebody says: one for each of these workers; where stages work on
/// micro-batches, enough of them to keep these busy.
Lane usual_lanes(const MeshChoice& mesh, std::uint32_t workers, std::uint64_t batch);

/// Throws InvalidArgument, which says what to do, if the strategy does not work with that many servers.
void check_servers(const StrategyChoice& choice, std::uint32_t servers);

}  // namespace trireme::cluster
