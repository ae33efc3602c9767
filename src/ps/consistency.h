#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "base/units.h"

namespace trireme::ps {

/// When a gradient takes effect, and who has to wait for whom.
struct Consistency {
  enum class Mode {
    kBsp,  ///< bulk synchronous: one update from all workers' gradients of a step; all go on together
    kSsp,  ///< stale synchronous (Ho et al. 2013): each gradient at once; nobody more than `slack` clocks ahead
    kAsp,  ///< asynchronous: each gradient at once; nobody waits
  };

  Mode mode = Mode::kBsp;
  Step slack = 0;                    ///< ssp: by how many clocks the fastest may lead the slowest
  std::uint32_t backup_workers = 0;  ///< bsp: a step goes on when all but this many have arrived (Chen et al. 2016)
  bool damp_stale = false;           ///< ssp, asp: divides a gradient by its staleness (Zhang et al. 2016)

  bool synchronous() const { return mode == Mode::kBsp; }
  bool operator==(const Consistency&) const = default;
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Consistency, mode, slack, backup_workers, damp_stale)

/// "bsp", "ssp:4", "asp". Throws InvalidArgument that says which of these was meant.
Consistency parse_consistency(const std::string& text);
std::string to_string(const Consistency& consistency);

/// Throws InvalidArgument if it cannot work with that many workers.
void validate(const Consistency& consistency, std::uint32_t workers);

/// bsp: whether the step's update can be made with `arrived` of `active` workers' gradients.
bool round_complete(const Consistency& consistency, std::uint32_t arrived, std::uint32_t active);

/// Whether a worker that has finished `clock` steps may go on while the slowest has finished `slowest`.
bool may_go_on(const Consistency& consistency, Step clock, Step slowest);

/// How many steps `version` of the parameters stands for: in ssp and asp each lane's gradient makes one.
Step steps_of(const Consistency& consistency, Lane lanes, Step version);

/// What a gradient is multiplied by that was computed on parameters `staleness` updates old.
double staleness_factor(const Consistency& consistency, Step staleness);

}  // namespace trireme::ps
