#include "collective/native/host_groups.h"

#include <algorithm>

namespace trireme::collective {

std::vector<std::vector<Rank>> group_hosts(const SharedMemory& shared) {
  std::vector<std::vector<Rank>> hosts;
  for (Rank rank = 0; rank < shared.size(); ++rank) {
    const auto home = std::ranges::find_if(hosts, [&](const std::vector<Rank>& host) {
      return std::ranges::all_of(host,
                                 [&](Rank other) { return shared[rank][other] != 0 && shared[other][rank] != 0; });
    });
    if (home == hosts.end()) {
      hosts.push_back({rank});
    } else {
      home->push_back(rank);
    }
  }
  return hosts;
}

}  // namespace trireme::collective
