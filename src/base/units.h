#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme {

using Rank = std::uint32_t;  ///< position of a worker or a server among its role, from 0
using View = std::uint64_t;  ///< number of a membership of the job, from 1; 0 = not a member yet
using Step = std::uint64_t;  ///< one update of the parameters; also a worker's clock (steps it has finished)
using Lane = std::uint32_t;  ///< position of a slice of the global batch, from 0

inline constexpr std::size_t kKiB = 1u << 10;
inline constexpr std::size_t kMiB = 1u << 20;

}  // namespace trireme
