#include "trireme/cluster/shard_plan.h"

#include <algorithm>

#include "trireme/base/log.h"

namespace trireme::cluster {
namespace {

std::vector<AssignableServer> assignable(const std::vector<MemberInfo>& servers, const ServerWish& wish) {
  std::vector<AssignableServer> live;
  for (const MemberInfo& server : servers) live.push_back({.id = server.id, .leaving = server.slot >= wish.servers});
  return live;
}

/// Who holds parameters, or may: servers that live, and wait for a view or are in one.
std::vector<MemberInfo> available(const Roster& members) {
  std::vector<MemberInfo> servers;
  for (const auto& [id, member] : members.all()) {
    const bool here = member.in_view || member.waits_for_view;
    if (member.state.role == Role::kServer && member.alive() && here) servers.push_back(member.info);
  }
  std::ranges::sort(servers, {}, &MemberInfo::slot);
  return servers;
}

bool holds_something(MemberId server, const ViewInfo& view) {
  return std::ranges::any_of(
      view.shards, [&](const ShardPlace& place) { return place.primary == server || place.backup == server; });
}

}  // namespace

std::string why_place_anew(const ViewInfo& view, const Roster& members, const ServerWish& wish) {
  if (view.shards.empty()) return "";
  for (const auto& [id, member] : members.all()) {
    if (member.state.role == Role::kServer && member.alive() && !member.in_view && member.waits_for_view) {
      return member.name() + " wants to take part";
    }
  }
  const auto being_built = [](const ShardPlace& place) { return place.backup != 0 && !place.in_sync; };
  if (std::ranges::any_of(view.shards, being_built)) return "";
  const auto servers = assignable(available(members), wish);
  if (servers.empty()) return "";
  const Assignment better =
      assign_shards(view.shards, servers, static_cast<std::uint32_t>(view.shards.size()), wish.copies);
  return better.shards == view.shards ? "" : better.reason;
}

void place_shards(ViewInfo& next, const ViewInfo& before, const Roster& members, const ServerWish& wish) {
  next.servers = available(members);
  if (next.servers.empty()) return;
  const auto at_first = kShardsPerServer * static_cast<std::uint32_t>(next.servers.size());
  Assignment assignment = assign_shards(before.shards, assignable(next.servers, wish), at_first, wish.copies);
  for (ShardPlace& place : assignment.shards) {
    if (before.shards.empty()) place.born = next.view;
  }
  for (const std::uint32_t shard : assignment.lost) assignment.shards[shard].born = next.view;
  log_info("places the parameters", {{"view", next.view}, {"reason", assignment.reason}});
  next.shards = std::move(assignment.shards);
  for (MemberInfo& server : next.servers) {
    if (server.since == 0) server.since = next.view;
  }
}

bool may_go(const Member& server, const ViewInfo& view, const ServerWish& wish) {
  const bool surplus = server.state.role == Role::kServer && server.state.slot >= wish.servers;
  return surplus && !holds_something(server.info.id, view);
}

std::uint32_t copies_due(const ViewInfo& view, const ServerWish& wish) {
  const auto due = [&](const ShardPlace& place) { return wish.copies > 1 && !(place.backup != 0 && place.in_sync); };
  return static_cast<std::uint32_t>(std::ranges::count_if(view.shards, due));
}

}  // namespace trireme::cluster
