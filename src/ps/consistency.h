#pragma once

#include <cstdint>

#include <nlohmann/json.hpp>

#include "trireme/strategy.h"

namespace trireme::ps {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Consistency, mode, slack, backup_workers, damp_stale)

/// Throws InvalidArgument if it cannot work with that many workers.
void validate(const Consistency& consistency, std::uint32_t workers);

/// Whether a worker that has finished `clock` steps may go on while the slowest has finished `slowest`.
bool may_go_on(const Consistency& consistency, Step clock, Step slowest);

/// How many steps `version` of the parameters stands for: in ssp and asp each lane's gradient makes one.
Step steps_of(const Consistency& consistency, Lane lanes, Step version);

/// What a gradient is multiplied by that was computed on parameters `staleness` updates old.
double staleness_factor(const Consistency& consistency, Step staleness);

}  // namespace trireme::ps
