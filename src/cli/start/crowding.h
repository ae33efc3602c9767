#pragma once

#include <cstdint>
#include <string>

namespace trireme::cli {

/// Says that `workers` with `threads` compute threads each are more than the `cores` of their host, where all of them
/// then wait for each other, and how many fit; empty if they fit, or 0 threads leave the choice to us.
std::string describe_crowding(std::uint32_t workers, int threads, std::uint32_t cores);

/// Prints that for workers of this host.
void warn_of_crowding(std::uint32_t workers, int threads);

}  // namespace trireme::cli
