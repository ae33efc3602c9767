#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>

#include "trireme/types.h"

namespace trireme {

inline std::uint32_t available_cores() { return std::max(1u, std::thread::hardware_concurrency()); }

/// Returns the default number of compute threads of a worker. Depends on lanes, not on workers, because results may
/// depend on it; one core is left to servers and the network.
inline int threads_per_worker(Lane lanes) {
  const int cores = static_cast<int>(available_cores());
  return std::max(1, (cores - 1) / static_cast<int>(std::max<Lane>(1, lanes)));
}

}  // namespace trireme
