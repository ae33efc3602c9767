#include "cluster/assignment.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/random.h"
#include "tests/support/expect_fails.h"

namespace trireme::cluster {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<AssignableServer> servers(const std::vector<MemberId>& ids, MemberId leaving = 0) {
  std::vector<AssignableServer> all;
  for (const MemberId id : ids) all.push_back({.id = id, .leaving = id == leaving});
  return all;
}

std::map<MemberId, int> primaries(const std::vector<ShardPlace>& shards) {
  std::map<MemberId, int> count;
  for (const ShardPlace& place : shards) ++count[place.primary];
  return count;
}

std::map<MemberId, int> copies(const std::vector<ShardPlace>& shards) {
  std::map<MemberId, int> count = primaries(shards);
  for (const ShardPlace& place : shards) {
    if (place.replica != 0) ++count[place.replica];
    if (place.filling != 0) ++count[place.filling];
  }
  return count;
}

int spread(std::map<MemberId, int> count, const std::vector<AssignableServer>& among) {
  int least = 1 << 30;
  int most = 0;
  for (const AssignableServer& server : among) {
    least = std::min(least, count[server.id]);
    most = std::max(most, count[server.id]);
  }
  return most - least;
}

/// Every copy under way gets there.
void sync_all(std::vector<ShardPlace>& shards) {
  for (ShardPlace& place : shards) {
    place.in_sync = place.replica != 0;
    place.filled = place.filling != 0;
  }
}

/// Calls until nothing changes any more, all copies in sync in between.
std::vector<ShardPlace> settle(std::vector<ShardPlace> shards, const std::vector<AssignableServer>& live,
                               std::uint32_t replicas) {
  for (int round = 0; round < 20; ++round) {
    sync_all(shards);
    const Assignment next = assign_shards(shards, live, static_cast<std::uint32_t>(shards.size()), replicas);
    EXPECT_THAT(next.lost, IsEmpty());
    if (next.shards == shards) {
      EXPECT_EQ(next.reason, "all shards stay where they are");
      return shards;
    }
    shards = next.shards;
  }
  ADD_FAILURE() << "does not come to rest";
  return shards;
}

TEST(Assignment, TheFirstOneIsEven) {
  const auto one = assign_shards({}, servers({7}), 4, 2);
  EXPECT_EQ(primaries(one.shards)[7], 4);
  EXPECT_EQ(one.shards[0].replica, 0u);
  const auto three = assign_shards({}, servers({3, 1, 2}), 12, 2);
  EXPECT_THAT(three.reason, HasSubstr("3 servers"));
  std::map<std::pair<MemberId, MemberId>, int> pairs;
  for (const ShardPlace& place : three.shards) {
    EXPECT_TRUE(place.in_sync);
    ++pairs[{place.primary, place.replica}];
  }
  EXPECT_EQ(pairs.size(), 6u) << "what one server leaves behind is shared by the others";
  for (const auto& [pair, count] : pairs) EXPECT_EQ(count, 2);
  for (const ShardPlace& place : assign_shards({}, servers({1, 2}), 8, 1).shards) EXPECT_EQ(place.replica, 0u);
}

TEST(Assignment, ReplicaTakesOverAndANewOneIsChosen) {
  const auto first = assign_shards({}, servers({1, 2, 3}), 12, 2);
  const auto next = assign_shards(first.shards, servers({2, 3}), 12, 2);
  EXPECT_THAT(next.lost, IsEmpty());
  EXPECT_THAT(next.reason, HasSubstr("4 shards go to their replica, because the primary is gone"));
  for (std::size_t i = 0; i < 12; ++i) {
    const ShardPlace& before = first.shards[i];
    const ShardPlace& now = next.shards[i];
    EXPECT_EQ(now.primary, before.primary == 1 ? before.replica : before.primary);
    EXPECT_NE(now.replica, 0u);
    EXPECT_EQ(now.in_sync, before.primary != 1 && before.replica != 1);
  }
}

TEST(Assignment, ReplicaOutOfSyncIsNeverPromoted) {
  std::vector<ShardPlace> shards{{.primary = 1, .replica = 2, .in_sync = false}, {1, 2, true}, {1, 0, false}};
  const auto next = assign_shards(shards, servers({2, 3}), 3, 2);
  EXPECT_EQ(next.lost, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(next.shards[1].primary, 2u);
  EXPECT_THAT(next.reason, HasSubstr("2 shards are lost"));
}

TEST(Assignment, NewServerGetsItsShareInTwoCalls) {
  for (const std::uint32_t replicas : {1u, 2u}) {
    const auto before = assign_shards({}, servers({1, 2}), 12, replicas).shards;
    const auto live = servers({1, 2, 3});
    const auto built = assign_shards(before, live, 12, replicas);
    EXPECT_EQ(primaries(built.shards), primaries(before)) << "nobody serves from a copy that is not there";
    EXPECT_GE(copies(built.shards)[3], 4);
    auto synced = built.shards;
    sync_all(synced);
    EXPECT_EQ(primaries(assign_shards(synced, live, 12, replicas).shards)[3], 4);
    const auto rest = settle(before, live, replicas);
    EXPECT_LE(spread(primaries(rest), live), 1);
    EXPECT_LE(spread(copies(rest), live), 1);
    for (const ShardPlace& place : rest) EXPECT_EQ(place.replica != 0, replicas == 2);
  }
}

TEST(Assignment, AServerThatLeavesLosesAll) {
  for (const std::uint32_t replicas : {1u, 2u}) {
    const auto before = assign_shards({}, servers({1, 2, 3}), 12, replicas).shards;
    const auto rest = settle(before, servers({1, 2, 3}, /*leaving=*/2), replicas);
    EXPECT_EQ(copies(rest).count(2), 0u) << replicas;
    EXPECT_LE(spread(primaries(rest), servers({1, 3})), 1);
  }
}

TEST(Assignment, WhileANewServerFillsUpEveryShardKeepsItsReplica) {
  const auto before = assign_shards({}, servers({1, 2}), 8, 2).shards;
  const auto filling = assign_shards(before, servers({1, 2, 3}), 8, 2).shards;
  EXPECT_GE(copies(filling)[3], 4);
  for (const ShardPlace& place : filling) EXPECT_TRUE(place.in_sync && !place.filled);
  for (const MemberId dead : {1u, 2u}) {  // nothing of server 3 is complete yet
    const auto next = assign_shards(filling, servers({3 - dead, 3}), 8, 2);
    EXPECT_THAT(next.lost, IsEmpty()) << dead;
    for (const ShardPlace& place : next.shards) EXPECT_EQ(place.primary, 3 - dead);
  }
  auto filled = filling;
  sync_all(filled);
  const auto after = assign_shards(filled, servers({1, 2, 3}), 8, 2).shards;
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_TRUE(after[i].in_sync);
    EXPECT_EQ(after[i].filling, 0u);
    EXPECT_TRUE(filled[i].filling != 3 || after[i].primary == 3 || after[i].replica == 3);
  }
}

TEST(Assignment, AServerLeavesOnlyWhenItsReplicasAreElsewhere) {
  const auto before = assign_shards({}, servers({1, 2, 3}), 12, 2).shards;
  const auto live = servers({1, 2, 3}, /*leaving=*/2);
  const auto first = assign_shards(before, live, 12, 2).shards;
  for (const ShardPlace& place : first) {
    EXPECT_NE(place.primary, 2u);
    EXPECT_TRUE(place.in_sync) << "on the leaving server, if need be";
    EXPECT_EQ(place.replica == 2, place.filling != 0);
  }
  const auto alone = assign_shards(before, {{.id = 1}, {.id = 2, .leaving = true}, {.id = 3, .leaving = true}}, 12, 2);
  for (const ShardPlace& place : settle(alone.shards, {{.id = 1}, {.id = 2, .leaving = true}}, 2)) {
    EXPECT_EQ(place.replica, 0u) << "there is no other server";
  }
}

TEST(Assignment, RefusesInvalidArguments) {
  EXPECT_FAILS(assign_shards({}, {}, 4, 1), InvalidArgument, "no server");
  EXPECT_FAILS(assign_shards({}, servers({1}), 4, 0), InvalidArgument, "0 copies");
  EXPECT_FAILS(assign_shards({}, servers({1}), 4, 3), InvalidArgument, "3 copies");
}

TEST(Assignment, OnlyReportsOfTheCurrentPairCount) {
  std::vector<ShardPlace> shards{{1, 2, false}, {2, 1, false}};
  EXPECT_FALSE(apply_reports(shards, 1, {{.shard = 0, .replica = 3, .in_sync = true, .failure = ""}}));
  EXPECT_FALSE(apply_reports(shards, 1, {{.shard = 1, .replica = 2, .in_sync = true, .failure = ""}}));
  EXPECT_FALSE(apply_reports(shards, 1, {{.shard = 9, .replica = 2, .in_sync = true, .failure = ""}}));
  EXPECT_TRUE(apply_reports(shards, 1, {{.shard = 0, .replica = 2, .in_sync = true, .failure = ""}}));
  EXPECT_TRUE(shards[0].in_sync);
  shards[0].filling = 5;
  EXPECT_FALSE(apply_reports(shards, 1, {{.shard = 0, .replica = 2, .in_sync = true, .failure = ""}}));
  EXPECT_FALSE(shards[0].filled);
  EXPECT_TRUE(apply_reports(shards, 1, {{.shard = 0, .replica = 5, .in_sync = true, .failure = ""}}));
  EXPECT_TRUE(shards[0].filled);
}

/// Servers die, come and leave at random; copies get in sync at random. A model of who really has the data follows.
TEST(Assignment, PrimaryAlwaysHasTheDataUnderRandomEvents) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RandomStream random(seed);
    const auto replicas = static_cast<std::uint32_t>(1 + random.below(2));
    const auto count = static_cast<std::uint32_t>(1 + random.below(20));
    std::vector<MemberId> live(1 + random.below(6));
    MemberId next_id = 1;
    for (MemberId& id : live) id = next_id++;
    auto shards = assign_shards({}, servers(live), count, replicas).shards;
    for (int event = 0; event < 30; ++event) {
      for (ShardPlace& place : shards) {
        if (place.replica != 0 && random.below(2) == 0) place.in_sync = true;
        if (place.filling != 0 && random.below(2) == 0) place.filled = true;
      }
      const auto before = shards;
      MemberId leaving = 0;
      const auto what = random.below(4);
      if (what == 0 && live.size() > 1)
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(random.below(live.size())));
      if (what == 1 && live.size() < 8) live.push_back(next_id++);
      if (what == 2 && live.size() > 1) leaving = live[random.below(live.size())];
      const auto alive = [&](MemberId id) { return std::ranges::find(live, id) != live.end(); };
      const Assignment result = assign_shards(before, servers(live, leaving), count, replicas);
      shards = result.shards;
      ASSERT_EQ(shards.size(), count);
      std::vector<std::uint32_t> lost;
      for (std::uint32_t i = 0; i < count; ++i) {
        const bool primary_had = alive(before[i].primary);
        const bool replica_had = before[i].in_sync && alive(before[i].replica);
        const bool filled_had = before[i].filled && alive(before[i].filling);
        if (!primary_had && !replica_had && !filled_had) lost.push_back(i);
        const ShardPlace& now = shards[i];
        ASSERT_TRUE(alive(now.primary));
        ASSERT_NE(now.primary, now.replica) << "two copies on one server";
        ASSERT_TRUE(now.replica == 0 || alive(now.replica));
        ASSERT_TRUE(now.filling == 0 || (alive(now.filling) && now.in_sync)) << "a third place without a second";
        ASSERT_TRUE(now.filling == 0 || (now.filling != now.primary && now.filling != now.replica));
        const auto had_all = [&](MemberId id) {
          return (primary_had && id == before[i].primary) || (replica_had && id == before[i].replica) ||
                 (filled_had && id == before[i].filling);
        };
        if (primary_had || replica_had || filled_had) {
          ASSERT_TRUE(had_all(now.primary)) << "seed " << seed << ": a copy without the data serves";
        }
        if (now.in_sync) {  // it was in sync before, or has just handed over
          ASSERT_TRUE(had_all(now.replica)) << "seed " << seed << ": a copy is called in sync that is not";
        }
        if (replicas == 2 && primary_had && replica_had && live.size() > (leaving == 0 ? 1u : 2u)) {
          ASSERT_TRUE(now.in_sync) << "seed " << seed << ": a shard is without protection because of a move";
        }
        if (replicas == 2 && live.size() > 1 && leaving == 0) {
          ASSERT_NE(now.replica, 0u);
        }
      }
      ASSERT_EQ(result.lost, lost);
    }
    const auto all = servers(live);
    const auto rest = settle(shards, all, replicas);
    EXPECT_LE(spread(primaries(rest), all), 1) << "seed " << seed;
    EXPECT_LE(spread(copies(rest), all), 1) << "seed " << seed;
  }
}

}  // namespace
}  // namespace trireme::cluster
