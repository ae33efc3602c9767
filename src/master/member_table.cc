#include "master/member_table.h"

#include <algorithm>

#include "base/error.h"

namespace trireme::master {

std::string Member::name() const { return fmt::format("{} {}", to_string(state.role), state.slot); }

void Member::answer(const cluster::JoinReply& reply, Deadline::Clock::time_point now) {
  last_heard = now;
  done = false;
  const auto [asker, question] = *std::exchange(waits_for_view, std::nullopt);
  asker->reply(question, reply);
}

void Member::refuse(const std::string& reason) {
  const auto [asker, question] = *std::exchange(waits_for_view, std::nullopt);
  asker->refuse(question, Timeout(reason));
}

Member* MemberTable::find(cluster::MemberId id) {
  const auto found = members_.find(id);
  return found == members_.end() ? nullptr : &found->second;
}

const Member* MemberTable::living(cluster::Role role, std::uint32_t slot) const {
  const auto found = std::ranges::find_if(members_, [&](const auto& entry) {
    const Member& member = entry.second;
    return member.state.role == role && member.state.slot == slot && member.alive();
  });
  return found == members_.end() ? nullptr : &found->second;
}

bool MemberTable::any_alive(cluster::Role role) const {
  return std::ranges::any_of(
      members_, [&](const auto& entry) { return entry.second.state.role == role && entry.second.alive(); });
}

bool MemberTable::any_server() const {
  return std::ranges::any_of(members_, [](const auto& entry) { return entry.second.may_serve(); });
}

Member& MemberTable::add(const cluster::MemberInfo& info, cluster::Role role) {
  Member& member = members_[info.id];
  member.info = info;
  member.state = {.role = role, .slot = info.slot, .pid = info.pid};
  return member;
}

bool MemberTable::any_server_unheard() const {
  return std::ranges::any_of(members_, [](const auto& entry) {
    const Member& member = entry.second;
    return member.state.role == cluster::Role::kServer && member.alive() && !member.heard;
  });
}

void MemberTable::remember(const cluster::ViewInfo& view, Deadline::Clock::time_point last_heard) {
  const auto add_all = [&](const std::vector<cluster::MemberInfo>& members, cluster::Role role) {
    for (const cluster::MemberInfo& info : members) {
      Member& member = add(info, role);
      member.last_heard = last_heard;
      member.heard = false;
      member.in_view = true;
    }
  };
  add_all(view.workers, cluster::Role::kWorker);
  add_all(view.servers, cluster::Role::kServer);
}

std::vector<cluster::MemberId> MemberTable::workers() const {
  std::map<std::uint32_t, cluster::MemberId> by_slot;
  for (const auto& [id, member] : members_) {
    if (member.state.role == cluster::Role::kWorker && member.alive()) by_slot[member.info.slot] = id;
  }
  std::vector<cluster::MemberId> all;
  for (const auto& [slot, id] : by_slot) all.push_back(id);
  return all;
}

std::vector<ViewCandidate> MemberTable::candidates() const {
  std::vector<ViewCandidate> workers;
  for (const auto& [id, member] : members_) {
    if (member.state.role != cluster::Role::kWorker || !member.alive()) continue;
    workers.push_back({.id = id,
                       .slot = member.info.slot,
                       .since = member.info.since,
                       .in_view = member.in_view,
                       .ready = member.waits_for_view.has_value(),
                       .done = member.done});
  }
  return workers;
}

std::vector<MemberState> MemberTable::states() const {
  std::vector<MemberState> states;
  for (const auto& [id, member] : members_) states.push_back(member.state);
  return states;
}

void MemberTable::enter(const cluster::ViewInfo& view) {
  for (auto& [id, member] : members_) member.in_view = member.was_in_view = false;
  for (const auto* members : {&view.workers, &view.servers}) {
    for (const cluster::MemberInfo& info : *members) {
      members_.at(info.id).info = info;
      members_.at(info.id).in_view = true;
    }
  }
  std::erase_if(members_, [](const auto& entry) { return !entry.second.alive(); });
}

}  // namespace trireme::master
