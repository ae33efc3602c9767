#include "master/shard_plan.h"

#include <algorithm>

#include "base/log.h"

namespace trireme::master {
namespace {

std::vector<cluster::AssignableServer> assignable(const std::vector<cluster::MemberInfo>& servers,
                                                  const ServerTarget& target) {
  std::vector<cluster::AssignableServer> live;
  for (const cluster::MemberInfo& server : servers)
    live.push_back({.id = server.id, .leaving = server.slot >= target.servers});
  return live;
}

/// Returns the servers that may hold parameters: those that are alive and in a view or waiting for one, and that the
/// others reach.
std::vector<cluster::MemberInfo> available(const MemberTable& members) {
  std::vector<cluster::MemberInfo> servers;
  for (const auto& [id, member] : members.all()) {
    const bool here = member.in_view || member.waits_for_view;
    if (member.may_serve() && here) servers.push_back(member.info);
  }
  std::ranges::sort(servers, {}, &cluster::MemberInfo::slot);
  return servers;
}

bool holds_something(cluster::MemberId server, const cluster::ViewInfo& view) {
  return std::ranges::any_of(view.shards, [&](const cluster::ShardPlace& place) {
    return place.primary == server || place.replica == server || place.filling == server;
  });
}

}  // namespace

std::string why_place_anew(const cluster::ViewInfo& view, const MemberTable& members, const ServerTarget& target) {
  if (view.shards.empty()) return "";
  for (const auto& [id, member] : members.all()) {
    if (member.may_serve() && !member.in_view && member.waits_for_view) {
      return member.name() + " wants to take part";
    }
  }
  const auto being_built = [](const cluster::ShardPlace& place) { return place.being_built() != 0; };
  if (std::ranges::any_of(view.shards, being_built)) return "";
  const auto servers = assignable(available(members), target);
  if (servers.empty()) return "";
  const cluster::Assignment better =
      cluster::assign_shards(view.shards, servers, static_cast<std::uint32_t>(view.shards.size()), target.copies);
  return better.shards == view.shards ? "" : better.reason;
}

void place_shards(cluster::ViewInfo& next, const cluster::ViewInfo& before, const MemberTable& members,
                  const ServerTarget& target) {
  next.servers = available(members);
  if (next.servers.empty()) return;
  const auto at_first = cluster::kShardsPerServer * static_cast<std::uint32_t>(next.servers.size());
  cluster::Assignment assignment =
      cluster::assign_shards(before.shards, assignable(next.servers, target), at_first, target.copies);
  for (cluster::ShardPlace& place : assignment.shards) {
    if (before.shards.empty()) place.born = next.view;
  }
  for (const std::uint32_t shard : assignment.lost) assignment.shards[shard].born = next.view;
  log_info("shards_placed", "placed the shards of the parameters",
           {{"view", next.view}, {"reason", assignment.reason}});
  if (!assignment.lost.empty()) {
    log_warn("shards_lost", "shards are lost with their servers: no replica in sync is left",
             {{"view", next.view}, {"shards", assignment.lost.size()}});
  }
  next.shards = std::move(assignment.shards);
  for (cluster::MemberInfo& server : next.servers) {
    if (server.since == 0) server.since = next.view;
  }
}

const Member* holder_of_last_copies(const cluster::ViewInfo& view, const MemberTable& members,
                                    Deadline::Clock::time_point since) {
  const auto find = [&](cluster::MemberId id) -> const Member* {
    const auto found = members.all().find(id);
    return found == members.all().end() ? nullptr : &found->second;
  };
  const auto may_return = [&](const Member& member) {
    const bool heard = member.was_in_view && !member.state.left && member.last_heard >= since;
    return heard && members.living(member.state.role, member.state.slot) == nullptr;
  };
  if (view.shards.empty()) {  // each worker of the view has everything
    const Member* holder = nullptr;
    for (const cluster::MemberInfo& info : view.workers) {
      const Member* worker = find(info.id);
      if (worker != nullptr && worker->alive()) return nullptr;
      if (worker != nullptr && may_return(*worker)) holder = worker;
    }
    return holder;
  }
  for (const cluster::ShardPlace& place : view.shards) {
    const Member* holder = nullptr;
    bool lives = false;
    for (const cluster::MemberId id :
         {place.primary, place.in_sync ? place.replica : 0, place.filled ? place.filling : 0}) {
      const Member* server = find(id);
      if (server == nullptr) continue;
      lives = lives || server->alive();
      if (may_return(*server)) holder = server;
    }
    if (!lives && holder != nullptr) return holder;
  }
  return nullptr;
}

bool may_go(const Member& server, const cluster::ViewInfo& view, const ServerTarget& target) {
  const bool surplus = server.state.role == cluster::Role::kServer && server.state.slot >= target.servers;
  return surplus && !holds_something(server.info.id, view);
}

std::uint32_t copies_due(const cluster::ViewInfo& view, const ServerTarget& target) {
  const auto due = [&](const cluster::ShardPlace& place) {
    return target.copies > 1 && !(place.replica != 0 && place.in_sync);
  };
  return static_cast<std::uint32_t>(std::ranges::count_if(view.shards, due));
}

}  // namespace trireme::master
