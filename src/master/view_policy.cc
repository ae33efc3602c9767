#include "master/view_policy.h"

#include <algorithm>

#include "base/error.h"

namespace trireme::master {

Health judge_member(const MemberState& member, std::chrono::milliseconds hang_after) {
  if (member.left) return {};
  const std::string who = fmt::format("{} {} (pid {})", to_string(member.role), member.slot, member.pid);
  if (member.disconnected) {
    return {.lost = true, .cause = "died", .reason = who + " died: its connection to the master ended; see its log"};
  }
  if (member.silent_for > hang_after) {
    return {.lost = true,
            .cause = "hangs",
            .reason = fmt::format("{} hangs: no heartbeat for {:.1f} s; is it stopped, or its machine overloaded?", who,
                                  static_cast<double>(member.silent_for.count()) / 1000.0)};
  }
  return {};
}

std::string describe_missing(const JobShape& shape, const std::vector<MemberState>& here) {
  std::string text;
  const auto list = [&](cluster::Role role, std::uint32_t count) {
    for (std::uint32_t slot = 0; slot < count; ++slot) {
      const bool present = std::ranges::any_of(here, [&](const MemberState& member) {
        return member.role == role && member.slot == slot && !member.disconnected && !member.left;
      });
      if (!present) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", to_string(role), slot);
    }
  };
  list(cluster::Role::kServer, shape.servers);
  list(cluster::Role::kWorker, shape.workers);
  return text;
}

namespace {

std::string names(const std::vector<ViewCandidate>& workers) {
  std::string text;
  for (const ViewCandidate& worker : workers) text += fmt::format("{}{}", text.empty() ? "" : ", ", worker.slot);
  return (workers.size() == 1 ? "worker " : "workers ") + text;
}

std::vector<ApartCandidate> names_of(const std::vector<ViewCandidate>& workers) {
  std::vector<ApartCandidate> all;
  for (const ViewCandidate& worker : workers) all.push_back({.id = worker.id, .slot = worker.slot});
  return all;
}

/// Orders the oldest members first: the chief stays the chief as long as it lives.
bool before(const ViewCandidate& a, const ViewCandidate& b) {
  const auto age = [](const ViewCandidate& worker) { return worker.since == 0 ? ~View{0} : worker.since; };
  return std::pair(age(a), a.slot) < std::pair(age(b), b.slot);
}

}  // namespace

ViewDecision decide_view(const ViewInputs& view_inputs) {
  using Kind = ViewDecision::Kind;
  std::vector<ViewCandidate> members;
  std::vector<ViewCandidate> newcomers;
  for (const ViewCandidate& worker : view_inputs.workers) {
    if (worker.in_view) members.push_back(worker);
    if (!worker.in_view && worker.ready) newcomers.push_back(worker);
  }
  std::ranges::sort(members, before);
  std::ranges::sort(newcomers, before);
  const auto done = [](const ViewCandidate& worker) { return worker.done; };
  const bool ending = std::ranges::any_of(members, done);
  const std::size_t room = view_inputs.most_workers - std::min<std::size_t>(view_inputs.most_workers, members.size());
  std::vector<ViewCandidate> together = members;
  together.insert(together.end(), newcomers.begin(), newcomers.end());
  const LeftOut out =
      ending ? LeftOut{} : leave_out_workers(names_of(together), view_inputs.servers, view_inputs.apart);
  const std::string left_out = view_inputs.servers_left_out + out.reason;
  const auto takes_part = [&](const ViewCandidate& worker) {
    return std::ranges::find(out.members, worker.id) == out.members.end();
  };
  std::erase_if(newcomers, [&](const ViewCandidate& worker) { return !takes_part(worker); });
  newcomers.resize(std::min(newcomers.size(), ending && !members.empty() ? 0 : room));

  std::string reason;
  if (view_inputs.broken || members.empty()) {
    const std::string gone = view_inputs.gone.empty() ? "somebody is gone" : view_inputs.gone;
    reason = members.empty() ? "nobody is left" : gone;
  } else if (!newcomers.empty()) {
    reason = names(newcomers) + (newcomers.size() == 1 ? " wants" : " want") + " to take part";
  } else if (!view_inputs.place_anew.empty() && !ending) {
    reason = view_inputs.place_anew;
  } else if (!view_inputs.balance.empty() && !ending) {
    reason = view_inputs.balance;
  } else if (!view_inputs.save.empty() && !ending) {
    reason = view_inputs.save;
  } else if (std::ranges::any_of(members, [](const ViewCandidate& worker) { return worker.ready && !worker.done; })) {
    reason = "a member cannot go on in this view";
  } else {
    return {.kind = Kind::kKeep, .reason = "all is well", .workers = {}};
  }
  if (!std::ranges::all_of(members, [](const ViewCandidate& worker) { return worker.ready; })) {
    return {.kind = Kind::kRegroup, .reason = reason, .workers = {}};
  }
  if (view_inputs.no_server) {
    return {.kind = Kind::kWait, .reason = "no server is left" + view_inputs.servers_left_out, .workers = {}};
  }
  std::erase_if(members, [&](const ViewCandidate& worker) { return !ending && !takes_part(worker); });
  const std::size_t count = members.size() + newcomers.size();
  if (count == 0 || (count < view_inputs.shape.min_workers && !ending)) {
    return {
        .kind = Kind::kWait,
        .reason = fmt::format("{} of at least {} workers are here{}", count, view_inputs.shape.min_workers, left_out),
        .workers = {}};
  }
  ViewDecision decision{.kind = Kind::kForm, .reason = reason + left_out, .workers = {}};
  members.insert(members.end(), newcomers.begin(), newcomers.end());
  for (const ViewCandidate& worker : members) decision.workers.push_back(worker.id);
  return decision;
}

}  // namespace trireme::master
