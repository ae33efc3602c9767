#include "trireme/cluster/roster.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme::cluster {

std::string Member::name() const { return fmt::format("{} {}", to_string(state.role), state.slot); }

void Member::answer(const JoinReply& reply) {
  last_heard = Deadline::Clock::now();
  done = false;
  const auto [asker, question] = *std::exchange(waits_for_view, std::nullopt);
  asker->reply(question, reply);
}

void Member::refuse(const std::string& reason) {
  const auto [asker, question] = *std::exchange(waits_for_view, std::nullopt);
  asker->refuse(question, Timeout(reason));
}

Member* Roster::find(MemberId id) {
  const auto found = members_.find(id);
  return found == members_.end() ? nullptr : &found->second;
}

const Member* Roster::living(Role role, std::uint32_t slot) const {
  const auto found = std::ranges::find_if(members_, [&](const auto& entry) {
    const Member& member = entry.second;
    return member.state.role == role && member.state.slot == slot && member.alive();
  });
  return found == members_.end() ? nullptr : &found->second;
}

bool Roster::any_alive(Role role) const {
  return std::ranges::any_of(
      members_, [&](const auto& entry) { return entry.second.state.role == role && entry.second.alive(); });
}

Member& Roster::add(const MemberInfo& info, Role role) {
  Member& member = members_[info.id];
  member.info = info;
  member.state = {.role = role, .slot = info.slot, .pid = info.pid};
  return member;
}

bool Roster::any_server_unheard() const {
  return std::ranges::any_of(members_, [](const auto& entry) {
    const Member& member = entry.second;
    return member.state.role == Role::kServer && member.alive() && !member.heard;
  });
}

void Roster::remember(const ViewInfo& view, Deadline::Clock::time_point last_heard) {
  const auto add_all = [&](const std::vector<MemberInfo>& members, Role role) {
    for (const MemberInfo& info : members) {
      Member& member = add(info, role);
      member.last_heard = last_heard;
      member.heard = false;
      member.in_view = true;
    }
  };
  add_all(view.workers, Role::kWorker);
  add_all(view.servers, Role::kServer);
}

std::vector<MemberId> Roster::workers() const {
  std::map<std::uint32_t, MemberId> by_slot;
  for (const auto& [id, member] : members_) {
    if (member.state.role == Role::kWorker && member.alive()) by_slot[member.info.slot] = id;
  }
  std::vector<MemberId> all;
  for (const auto& [slot, id] : by_slot) all.push_back(id);
  return all;
}

std::vector<ViewCandidate> Roster::candidates() const {
  std::vector<ViewCandidate> workers;
  for (const auto& [id, member] : members_) {
    if (member.state.role != Role::kWorker || !member.alive()) continue;
    workers.push_back({.id = id,
                       .slot = member.info.slot,
                       .since = member.info.since,
                       .in_view = member.in_view,
                       .ready = member.waits_for_view.has_value(),
                       .done = member.done});
  }
  return workers;
}

std::vector<MemberState> Roster::states() const {
  std::vector<MemberState> states;
  for (const auto& [id, member] : members_) states.push_back(member.state);
  return states;
}

void Roster::enter(const ViewInfo& view) {
  for (auto& [id, member] : members_) member.in_view = false;
  for (const auto* members : {&view.workers, &view.servers}) {
    for (const MemberInfo& info : *members) {
      members_.at(info.id).info = info;
      members_.at(info.id).in_view = true;
    }
  }
  std::erase_if(members_, [](const auto& entry) { return !entry.second.alive(); });
}

}  // namespace trireme::cluster
