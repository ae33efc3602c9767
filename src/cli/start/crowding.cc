#include "cli/start/crowding.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/threads.h"

namespace trireme::cli {

std::string describe_crowding(std::uint32_t workers, int threads, std::uint32_t cores) {
  if (threads <= 1 || workers * static_cast<std::uint64_t>(threads) <= cores) return "";
  return fmt::format("{} with {} threads each share {}: this is slow; --threads {} fits", counted(workers, "worker"),
                     threads, counted(cores, "core"), std::max(1u, cores / std::max(1u, workers)));
}

void warn_of_crowding(std::uint32_t workers, int threads) {
  const std::string crowding = describe_crowding(workers, threads, available_cores());
  if (!crowding.empty()) fmt::print(stderr, "trireme: {}\n", crowding);
}

}  // namespace trireme::cli
