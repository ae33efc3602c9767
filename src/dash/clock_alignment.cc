#include "dash/clock_alignment.h"

#include <algorithm>
#include <map>
#include <optional>

namespace trireme::dash {
namespace {

/// offset[to] <= offset[from] + most.
struct Limit {
  std::size_t from = 0;
  std::size_t to = 0;
  std::int64_t most = 0;
};

/// Bellman and Ford: the largest offsets that all limits allow if that of `source` is 0; nullopt if they contradict
/// each other.
std::optional<std::vector<std::int64_t>> largest(std::size_t nodes, std::size_t source,
                                                 const std::vector<Limit>& limits) {
  std::vector<std::int64_t> offsets(nodes, kUnknownClock);
  offsets[source] = 0;
  for (std::size_t round = 0; round <= nodes; ++round) {
    bool changed = false;
    for (const Limit& limit : limits) {
      if (offsets[limit.from] == kUnknownClock || offsets[limit.from] + limit.most >= offsets[limit.to]) continue;
      offsets[limit.to] = offsets[limit.from] + limit.most;
      changed = true;
    }
    if (!changed) return offsets;
  }
  return std::nullopt;
}

std::vector<Limit> limits_of(const std::vector<cluster::ClockBounds>& bounds, const std::vector<MessageOrder>& orders) {
  const std::size_t master = bounds.size();
  std::vector<Limit> limits;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    if (!bounds[i].known) continue;
    limits.push_back({.from = master, .to = i, .most = bounds[i].most});
    limits.push_back({.from = i, .to = master, .most = -bounds[i].least});
  }
  std::map<std::pair<std::size_t, std::size_t>, std::int64_t> tightest;  // of many messages between the same two
  for (const MessageOrder& order : orders) {
    const std::int64_t most = order.after - order.before;
    const auto [known, fresh] = tightest.try_emplace({order.second, order.first}, most);
    if (!fresh) known->second = std::min(known->second, most);
  }
  for (const auto& [pair, most] : tightest) limits.push_back({.from = pair.first, .to = pair.second, .most = most});
  return limits;
}

}  // namespace

ClockAlignment align_clocks(const std::vector<cluster::ClockBounds>& bounds, const std::vector<MessageOrder>& orders) {
  const std::size_t master = bounds.size();
  const std::vector<Limit> limits = limits_of(bounds, orders);
  std::vector<Limit> reversed = limits;
  for (Limit& limit : reversed) std::swap(limit.from, limit.to);
  const auto upper = largest(bounds.size() + 1, master, limits);
  const auto lower = largest(bounds.size() + 1, master, reversed);  // of what is below, negated
  if (!upper || !lower) {
    if (orders.empty()) {  // each keeps its own clock
      return {.offsets = std::vector<std::int64_t>(master),
              .errors = std::vector<std::int64_t>(master, kUnknownClock),
              .contradiction = true};
    }
    ClockAlignment without = align_clocks(bounds, {});
    without.contradiction = true;
    return without;
  }
  ClockAlignment found;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    const bool bounded = (*upper)[i] != kUnknownClock && (*lower)[i] != kUnknownClock;
    const std::int64_t most = (*upper)[i];
    const std::int64_t least = -(*lower)[i];
    // Half-way, without overflow. Where nothing is known, its own clock is as good as any.
    found.offsets.push_back(bounded ? least + (most - least) / 2 : 0);
    found.errors.push_back(bounded ? (most - least + 1) / 2 : kUnknownClock);
  }
  return found;
}

}  // namespace trireme::dash
