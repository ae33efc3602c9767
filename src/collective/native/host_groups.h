#pragma once

#include <vector>

#include "trireme/types.h"

namespace trireme::collective {

/// Who shares memory with whom: `[a][b]` != 0 if ranks a and b do. Symmetric; the diagonal does not matter.
using SharedMemory = std::vector<std::vector<char>>;

/// Returns the ranks of each host, ascending; hosts in the order of their first ranks. All ranks of a host share memory
/// with each other. A rank joins the first host where it can, so every rank comes to the same result.
std::vector<std::vector<Rank>> group_hosts(const SharedMemory& shared);

}  // namespace trireme::collective
