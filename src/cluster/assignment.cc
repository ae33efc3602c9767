#include "cluster/assignment.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"

namespace trireme::cluster {
namespace {

/// The places of all shards while they are being changed, and the reasons.
class Placement {
 public:
  Placement(std::vector<ShardPlace> places, const std::vector<AssignableServer>& servers, std::uint32_t copies)
      : places_(std::move(places)), copies_(copies) {
    for (const AssignableServer& server : servers) leaving_[server.id] = server.leaving;
    for (const AssignableServer& server : servers) {
      if (!server.leaving) staying_.push_back(server.id);
    }
    if (staying_.empty()) {  // all are leaving: treat them as staying
      for (const AssignableServer& server : servers) staying_.push_back(server.id);
      for (auto& [id, leaving] : leaving_) leaving = false;
    }
    std::ranges::sort(staying_);
  }

  void spread() {
    const std::size_t count = staying_.size();
    for (std::size_t i = 0; i < places_.size(); ++i) {
      places_[i].primary = staying_[i % count];
      if (copies_ < 2 || count < 2) continue;
      const std::size_t apart = 1 + i / count % (count - 1);  // spreads the replicas of one server's shards too
      places_[i].replica = staying_[(i + apart) % count];
      places_[i].in_sync = true;  // both are empty
    }
    note(fmt::format("spread evenly over {} servers", count), 1);
  }

  /// Promotes in-sync replicas of primaries that died.
  void bury(std::vector<std::uint32_t>& lost) {
    std::size_t promoted = 0;
    std::size_t bare = 0;
    for (std::uint32_t i = 0; i < places_.size(); ++i) {
      ShardPlace& place = places_[i];
      if (place.filling != 0 && !lives(place.filling)) stop_filling(place);
      if (place.replica != 0 && !lives(place.replica)) {
        use_filled(place);
        bare += place.in_sync ? 0 : 1;
      }
      if (lives(place.primary)) continue;
      const MemberId heir = place.in_sync ? place.replica : 0;
      place.primary = heir;
      use_filled(place);
      if (heir == 0) drop_replica(place);  // what was being filled has not all of it
      if (heir != 0) {
        ++promoted;
      } else {
        lost.push_back(i);
      }
    }
    note("{} shards go to their replica, because the primary is gone", promoted);
    note("{} shards have lost their replica", bare);
    for (const std::uint32_t shard : lost) places_[shard].primary = least(staying_, load(/*primaries_only=*/true), 0);
    note("{} shards are lost: no copy in sync is left", lost.size());
  }

  /// Makes in-sync replicas primaries: where the primary is leaving, and where that balances the load.
  void swap_roles() {
    std::size_t swapped = 0;
    for (ShardPlace& place : places_) {
      if (leaves(place.filling)) stop_filling(place);
      if (place.filled) use_filled(place);
    }
    for (ShardPlace& place : places_) {
      if (!leaves(place.primary) || !settled(place) || leaves(place.replica)) continue;
      std::swap(place.primary, place.replica);
      ++swapped;
    }
    while (shift_one()) ++swapped;
    note("{} shards change their primary for an even load", swapped);
    for (ShardPlace& place : places_) {  // drop copies that were kept for a move
      const bool surplus = place.in_sync && copies_ < 2;
      if (surplus && !wants_move(place)) drop_replica(place);
    }
  }

  /// Chooses servers for missing replicas, and starts moves that balance the load.
  void choose_replicas() {
    std::size_t chosen = 0;
    for (ShardPlace& place : places_) {
      const bool needed = copies_ >= 2 || leaves(place.primary);
      const bool missing = place.replica == 0 || (settled(place) && leaves(place.replica));
      if (missing && needed) chosen += give_replica(place) ? 1 : 0;
    }
    note("{} shards get a new replica", chosen);
    std::size_t moved = 0;
    while (prepare_shift() || (copies_ >= 2 && move_replica())) ++moved;
    note("{} replicas move for an even load", moved);
  }

  std::vector<ShardPlace> take() { return std::move(places_); }
  std::string reason() const { return reason_.empty() ? "all shards stay where they are" : reason_; }

 private:
  using Load = std::map<MemberId, std::size_t>;

  bool lives(MemberId id) const { return leaving_.contains(id); }
  bool leaves(MemberId id) const {
    const auto found = leaving_.find(id);
    return found != leaving_.end() && found->second;
  }

  void note(std::string_view format, std::size_t count) {
    if (count == 0) return;
    reason_ += (reason_.empty() ? "" : "; ") + fmt::format(fmt::runtime(format), count);
  }

  /// Returns how many shards each server has. Of a replica and the one that will take its place, the latter counts.
  Load load(bool primaries_only) const {
    Load load;
    for (const MemberId id : staying_) load[id] = 0;
    for (const ShardPlace& place : places_) {
      const MemberId replica = place.filling != 0 ? place.filling : place.replica;
      if (load.contains(place.primary)) ++load[place.primary];
      if (!primaries_only && load.contains(replica)) ++load[replica];
    }
    return load;
  }

  /// Returns whether no copy of it is being built: roles may change, and other copies may be begun.
  static bool settled(const ShardPlace& place) { return place.in_sync && place.filling == 0; }

  /// Returns how many primaries each server will have when the moves in progress are done.
  Load planned() const {
    Load load = this->load(/*primaries_only=*/true);
    for (const ShardPlace& place : places_) {
      const MemberId built = place.being_built();
      if (built == 0 || !moves(place, built)) continue;
      if (load.contains(place.primary)) --load[place.primary];
      ++load[built];
    }
    return load;
  }

  /// Returns whether the copy being built on `built` is meant to become the primary: its server has fewer.
  bool moves(const ShardPlace& place, MemberId built) const {
    if (leaves(built)) return false;
    if (leaves(place.primary)) return true;
    const Load now = load(/*primaries_only=*/true);
    return now.at(place.primary) >= now.at(built) + 2;
  }

  /// Returns the server among `candidates` other than `not_this` with the least load; 0 if there is none.
  static MemberId least(const std::vector<MemberId>& candidates, const Load& load, MemberId not_this) {
    MemberId best = 0;
    for (const MemberId id : candidates) {
      if (id != not_this && (best == 0 || load.at(id) < load.at(best))) best = id;
    }
    return best;
  }

  static std::pair<MemberId, MemberId> extremes(const Load& load) {
    const auto by_load = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto [low, high] = std::minmax_element(load.begin(), load.end(), by_load);
    return {low->first, high->first};
  }

  bool wants_move(const ShardPlace& place) const { return leaves(place.primary) && !leaves(place.replica); }

  static void drop_replica(ShardPlace& place) {
    place.replica = 0;
    place.in_sync = false;
    stop_filling(place);
  }

  static void stop_filling(ShardPlace& place) {
    place.filling = 0;
    place.filled = false;
  }

  /// What is being filled, in sync or not, becomes the replica; without such a copy there is none.
  static void use_filled(ShardPlace& place) {
    place.replica = std::exchange(place.filling, 0);
    place.in_sync = std::exchange(place.filled, false);
  }

  /// Begins a copy on `server`: beside the replica, if that is in sync.
  static void build(ShardPlace& place, MemberId server) {
    if (place.replica != 0 && place.in_sync) {
      place.filling = server;
      place.filled = false;
    } else {
      place.replica = server;
      place.in_sync = false;
    }
  }

  bool give_replica(ShardPlace& place) {
    const MemberId server = least(staying_, load(/*primaries_only=*/false), place.primary);
    if (server == 0) {
      drop_replica(place);  // a leaving server's: nobody else can have it
    } else {
      build(place, server);
    }
    return server != 0;
  }

  /// Moves one primary from the server that has the most to one that has at least two fewer, along in-sync replicas,
  /// possibly through several servers, each of which gains one and loses one (an augmenting path).
  bool shift_one() {
    const Load now = load(/*primaries_only=*/true);
    const auto [low, high] = extremes(now);
    if (now.at(high) < now.at(low) + 2) return false;
    std::map<MemberId, std::size_t> reached_by;  // server -> the shard whose primary moves there
    std::vector<MemberId> frontier{high};
    for (std::size_t next = 0; next < frontier.size(); ++next) {
      const MemberId from = frontier[next];
      for (std::size_t i = 0; i < places_.size(); ++i) {
        const ShardPlace& place = places_[i];
        const bool edge = place.primary == from && settled(place) && now.contains(place.replica);
        if (!edge || place.replica == high || reached_by.contains(place.replica)) continue;
        reached_by[place.replica] = i;
        if (now.at(high) < now.at(place.replica) + 2) {
          frontier.push_back(place.replica);
          continue;
        }
        for (MemberId at = place.replica; at != high;) {
          ShardPlace& step = places_[reached_by.at(at)];
          at = step.primary;
          std::swap(step.primary, step.replica);
        }
        return true;
      }
    }
    return false;
  }

  /// Starts a copy of a shard of the server with the most primaries on the one with the fewest.
  bool prepare_shift() {
    const Load plan = planned();
    const auto [low, high] = extremes(plan);
    if (plan.at(high) < plan.at(low) + 2) return false;
    const Load copies = load(/*primaries_only=*/false);
    ShardPlace* best = nullptr;  // the one without a replica, or with its replica on the server with the most copies
    for (ShardPlace& place : places_) {
      const bool busy = place.replica != 0 && !settled(place);
      if (place.primary != high || place.replica == low || busy) continue;
      const auto weight = [&](const ShardPlace& p) { return p.replica == 0 ? ~std::size_t{0} : copies.at(p.replica); };
      if (best == nullptr || weight(place) > weight(*best)) best = &place;
    }
    if (best == nullptr || load(/*primaries_only=*/true).at(high) < load(/*primaries_only=*/true).at(low) + 2) {
      return false;
    }
    build(*best, low);
    return true;
  }

  /// Moves a replica from the server with the most copies to the one with the fewest.
  bool move_replica() {
    const Load copies = load(/*primaries_only=*/false);
    const auto [low, high] = extremes(copies);
    if (copies.at(high) < copies.at(low) + 2) return false;
    for (ShardPlace& place : places_) {
      if (place.replica != high || !settled(place) || place.primary == low) continue;
      build(place, low);
      return true;
    }
    return false;
  }

  std::vector<ShardPlace> places_;
  const std::uint32_t copies_;
  std::map<MemberId, bool> leaving_;  // all live servers
  std::vector<MemberId> staying_;     // those that may get shards
  std::string reason_;
};

}  // namespace

Assignment assign_shards(const std::vector<ShardPlace>& before, const std::vector<AssignableServer>& servers,
                         std::uint32_t shards, std::uint32_t copies) {
  if (servers.empty()) fail<InvalidArgument>("shards cannot be placed: no server is left");
  if (copies < 1 || copies > 2) fail<InvalidArgument>("{} copies of each shard: 1 and 2 are possible", copies);
  Assignment result;
  Placement placement(before.empty() ? std::vector<ShardPlace>(shards) : before, servers, copies);
  if (before.empty()) {
    placement.spread();
  } else {
    placement.bury(result.lost);
    placement.swap_roles();
    placement.choose_replicas();
  }
  result.shards = placement.take();
  result.reason = placement.reason();
  return result;
}

bool apply_reports(std::vector<ShardPlace>& places, MemberId from, const std::vector<ShardReport>& reports) {
  bool changed = false;
  for (const ShardReport& report : reports) {
    if (report.shard >= places.size()) continue;
    ShardPlace& place = places[report.shard];
    if (place.primary != from || report.replica == 0 || !report.in_sync) continue;
    bool ignored = true;
    bool& known = report.replica == place.replica   ? place.in_sync
                  : report.replica == place.filling ? place.filled
                                                    : ignored;
    changed = changed || !known;
    known = true;
  }
  return changed;
}

}  // namespace trireme::cluster
