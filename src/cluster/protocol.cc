#include "cluster/protocol.h"

#include <algorithm>
#include <numeric>

namespace trireme::cluster {

std::string to_string(Role role) { return role == Role::kWorker ? "worker" : "server"; }

std::vector<net::Address> ViewInfo::worker_addresses() const {
  std::vector<net::Address> all;
  for (const MemberInfo& worker : workers) all.push_back(worker.address);
  return all;
}

std::vector<std::uint32_t> slots_of(const std::vector<MemberStatus>& members) {
  std::vector<std::uint32_t> slots;
  for (const MemberStatus& member : members) slots.push_back(member.slot);
  return slots;
}

void DurationHistogram::add(double seconds, std::uint64_t times) {
  counts.resize(bounds.size() + 1, 0);
  const auto bound = std::ranges::lower_bound(bounds, seconds);
  counts[static_cast<std::size_t>(bound - bounds.begin())] += times;
  sum += seconds * static_cast<double>(times);
}

std::uint64_t DurationHistogram::count() const {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

std::uint64_t Plan::samples_in(Step made) const {
  const Step per_epoch = std::max<Step>(1, steps_per_epoch);
  return made / per_epoch * samples_per_epoch + std::min(made % per_epoch * batch, samples_per_epoch);
}

std::vector<LaneRange> ViewInfo::deal(Lane lanes) const {
  return lane_costs.empty() ? deal_lanes(lanes, static_cast<std::uint32_t>(workers.size()))
                            : deal_lanes(lanes, lane_costs);
}

ViewInfo first_view(std::uint32_t workers, const std::vector<net::Address>& servers, std::uint32_t copies) {
  ViewInfo view{.view = 1, .workers = {}, .servers = {}, .shards = {}};
  MemberId next = 1;
  for (std::uint32_t slot = 0; slot < workers; ++slot) {
    view.workers.push_back({.id = next++, .slot = slot, .pid = 0, .address = {}, .since = 1});
  }
  std::vector<AssignableServer> live;
  for (const net::Address& address : servers) {
    view.servers.push_back(
        {.id = next, .slot = static_cast<std::uint32_t>(live.size()), .pid = 0, .address = address, .since = 1});
    live.push_back({.id = next++});
  }
  const auto shards = kShardsPerServer * static_cast<std::uint32_t>(servers.size());
  view.shards = assign_shards({}, live, shards, copies).shards;
  return view;
}

std::string to_string(JobPhase state) { return nlohmann::json(state).get<std::string>(); }

}  // namespace trireme::cluster
