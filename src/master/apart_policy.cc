#include "master/apart_policy.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace trireme::master {
namespace {

using Candidates = std::vector<ApartCandidate>;
using Apart = std::vector<ApartPair>;

Candidates apart_from(cluster::MemberId id, const Candidates& others, const Apart& apart) {
  Candidates found;
  for (const ApartCandidate& other : others) {
    if (std::ranges::find(apart, ApartPair(std::minmax(id, other.id))) != apart.end()) found.push_back(other);
  }
  return found;
}

std::string names(const char* role, Candidates members) {
  std::ranges::sort(members, {}, &ApartCandidate::slot);
  std::string text;
  for (const ApartCandidate& member : members) text += fmt::format("{}{}", text.empty() ? "" : ", ", member.slot);
  return fmt::format("{}{} {}", role, members.size() == 1 ? "" : "s", text);
}

std::string both(const Candidates& workers, const Candidates& servers) {
  std::string text = workers.empty() ? "" : names("worker", workers);
  if (!workers.empty() && !servers.empty()) text += " and ";
  return servers.empty() ? text : text + names("server", servers);
}

void note(LeftOut& out, const char* role, const ApartCandidate& who, const std::string& others) {
  out.members.push_back(who.id);
  out.reason +=
      fmt::format("; {} {} is left out: it and {} reach the master, but not each other", role, who.slot, others);
}

/// What a server holds, and whether it would be lost with it.
struct HeldByServer {
  std::size_t primaries = 0;
  bool anything = false;
  bool spare = true;  ///< all of its shards have a copy in sync elsewhere
};

HeldByServer held_by(cluster::MemberId server, const Candidates& staying,
                     const std::vector<cluster::ShardPlace>& shards) {
  const auto stays = [&](cluster::MemberId id) {
    return id != server && std::ranges::find(staying, id, &ApartCandidate::id) != staying.end();
  };
  HeldByServer held;
  for (const cluster::ShardPlace& place : shards) {
    if (place.primary == server || place.replica == server || place.filling == server) held.anything = true;
    if (place.primary != server) continue;
    ++held.primaries;
    const bool copied = (place.in_sync && stays(place.replica)) || (place.filled && stays(place.filling));
    held.spare = held.spare && copied;
  }
  return held;
}

}  // namespace

LeftOut leave_out_servers(const Candidates& servers, const Candidates& workers, const Apart& apart,
                          const std::vector<cluster::ShardPlace>& shards) {
  LeftOut out;
  if (apart.empty()) return out;
  Candidates useful = workers;
  std::erase_if(useful, [&](const ApartCandidate& worker) {
    return apart_from(worker.id, servers, apart).size() == servers.size();
  });
  const std::size_t several = std::min<std::size_t>(2, useful.size());
  for (Candidates staying = servers;;) {
    using Rank = std::tuple<std::size_t, std::size_t, std::ptrdiff_t, std::uint32_t>;
    std::pair<Rank, const ApartCandidate*> worst{{}, nullptr};
    for (const ApartCandidate& server : staying) {
      const std::size_t cut_workers = apart_from(server.id, useful, apart).size();
      const std::size_t cut_servers = apart_from(server.id, staying, apart).size();
      const HeldByServer holds = held_by(server.id, staying, shards);
      const bool enough = cut_servers > 0 || (cut_workers > 0 && (cut_workers >= several || !holds.anything));
      if (!enough || !holds.spare || staying.size() == 1) continue;
      const Rank rank{cut_workers, cut_servers, -static_cast<std::ptrdiff_t>(holds.primaries), server.slot};
      if (worst.second == nullptr || rank > worst.first) worst = {rank, &server};
    }
    if (worst.second == nullptr) return out;
    const ApartCandidate server = *worst.second;
    note(out, "server", server, both(apart_from(server.id, useful, apart), apart_from(server.id, staying, apart)));
    std::erase_if(staying, [&](const ApartCandidate& other) { return other.id == server.id; });
  }
}

LeftOut leave_out_workers(const Candidates& workers, const Candidates& servers, const Apart& apart) {
  LeftOut out;
  if (apart.empty()) return out;
  Candidates together;
  for (const ApartCandidate& worker : workers) {
    const Candidates cut = apart_from(worker.id, servers, apart);
    if (cut.empty()) {
      together.push_back(worker);
    } else {
      note(out, "worker", worker, names("server", cut));
    }
  }
  while (!together.empty()) {
    const auto pairs = [&](const ApartCandidate& worker) { return apart_from(worker.id, together, apart).size(); };
    const auto worst = std::ranges::max_element(together.rbegin(), together.rend(), {}, pairs);
    const Candidates others = apart_from(worst->id, together, apart);
    if (others.empty()) break;
    note(out, "worker", *worst, names("worker", others));
    together.erase(std::next(worst).base());
  }
  return out;
}

std::vector<cluster::ShardPlace> without_unreached_copies(std::vector<cluster::ShardPlace> shards, const Apart& apart) {
  const auto unreached = [&](cluster::MemberId primary, cluster::MemberId copy) {
    return std::ranges::find(apart, ApartPair(std::minmax(primary, copy))) != apart.end();
  };
  for (cluster::ShardPlace& place : shards) {
    if (unreached(place.primary, place.filling)) {
      place.filling = 0;
      place.filled = false;
    }
    if (unreached(place.primary, place.replica)) {
      place.replica = std::exchange(place.filling, 0);
      place.in_sync = std::exchange(place.filled, false);
    }
  }
  return shards;
}

}  // namespace trireme::master
