#include "master/shard_plan.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/master/recording_session.h"

namespace trireme::master {
namespace {

using cluster::Role;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// So many servers, members 1, 2, ... at slots 0, 1, ...; all wait for a view.
MemberTable servers(std::uint32_t count) {
  MemberTable table;
  for (std::uint32_t slot = 0; slot < count; ++slot) {
    Member& server = table.add({.id = slot + 1, .slot = slot}, Role::kServer);
    server.waits_for_view.emplace(std::make_shared<RecordingSession>(slot), net::FrameHeader{});
  }
  return table;
}

/// The first view of these servers, which are in it from then on.
cluster::ViewInfo first_view_of(MemberTable& members, const ServerTarget& target) {
  cluster::ViewInfo view{.view = 1};
  place_shards(view, {}, members, target);
  members.enter(view);
  for (auto& [id, member] : members.all()) member.waits_for_view.reset();
  return view;
}

void mark_in_sync(cluster::ViewInfo& view) {
  for (cluster::ShardPlace& place : view.shards) {
    place.in_sync = place.replica != 0;
    place.filled = place.filling != 0;
  }
}

std::set<cluster::MemberId> primaries(const cluster::ViewInfo& view) {
  std::set<cluster::MemberId> found;
  for (const cluster::ShardPlace& place : view.shards) found.insert(place.primary);
  return found;
}

TEST(ShardPlan, FirstViewSpreadsShardsOverAllServers) {
  MemberTable members = servers(3);
  const cluster::ViewInfo view = first_view_of(members, {.servers = 3});
  EXPECT_EQ(view.shards.size(), 3 * cluster::kShardsPerServer);
  EXPECT_THAT(primaries(view), ElementsAre(1, 2, 3));
  for (const cluster::ShardPlace& place : view.shards) {
    EXPECT_EQ(place.born, 1);
    EXPECT_EQ(place.replica, 0);
  }
  for (const cluster::MemberInfo& server : view.servers) EXPECT_EQ(server.since, 1);
}

TEST(ShardPlan, WithoutServersThereAreNoShards) {
  cluster::ViewInfo view{.view = 1};
  place_shards(view, {}, MemberTable(), {.servers = 0});
  EXPECT_THAT(view.servers, IsEmpty());
  EXPECT_THAT(view.shards, IsEmpty());
}

TEST(ShardPlan, ServersThatDiedOrNeverAskedAreLeftOut) {
  MemberTable members = servers(3);
  members.find(1)->state.disconnected = true;
  members.find(3)->waits_for_view.reset();
  const cluster::ViewInfo view = first_view_of(members, {.servers = 3});
  EXPECT_THAT(primaries(view), ElementsAre(2));
}

TEST(ShardPlan, SettledPlacementNeedsNoChange) {
  MemberTable members = servers(2);
  cluster::ViewInfo view = first_view_of(members, {.servers = 2, .copies = 2});
  mark_in_sync(view);
  EXPECT_EQ(why_place_anew(view, members, {.servers = 2, .copies = 2}), "");
}

TEST(ShardPlan, NewServerIsAReasonToPlaceAnew) {
  MemberTable members = servers(1);
  const cluster::ViewInfo view = first_view_of(members, {.servers = 1});
  EXPECT_EQ(why_place_anew(view, members, {.servers = 2}), "");
  Member& newcomer = members.add({.id = 7, .slot = 1}, Role::kServer);
  newcomer.waits_for_view.emplace(std::make_shared<RecordingSession>(7), net::FrameHeader{});
  EXPECT_EQ(why_place_anew(view, members, {.servers = 2}), "server 1 wants to take part");
}

TEST(ShardPlan, NothingMovesWhileACopyIsBeingBuilt) {
  MemberTable members = servers(2);
  cluster::ViewInfo view = first_view_of(members, {.servers = 2, .copies = 2});
  mark_in_sync(view);
  const ServerTarget fewer{.servers = 1, .copies = 2};
  EXPECT_NE(why_place_anew(view, members, fewer), "");
  view.shards.front().in_sync = false;
  EXPECT_EQ(why_place_anew(view, members, fewer), "");
}

TEST(ShardPlan, JobWithoutShardsIsNeverPlacedAnew) {
  MemberTable members = servers(1);
  EXPECT_EQ(why_place_anew({.view = 1}, members, {.servers = 1}), "");
}

TEST(ShardPlan, InSyncReplicaTakesOverFromAServerThatDied) {
  MemberTable members = servers(2);
  const ServerTarget target{.servers = 2, .copies = 2};
  cluster::ViewInfo view = first_view_of(members, target);
  mark_in_sync(view);
  members.find(1)->state.disconnected = true;
  cluster::ViewInfo next{.view = 2};
  place_shards(next, view, members, target);
  EXPECT_THAT(primaries(next), ElementsAre(2));
  for (const cluster::ShardPlace& place : next.shards) EXPECT_EQ(place.born, 1);  // nothing was lost
}

TEST(ShardPlan, ShardsLostWithTheirServerBeginEmptyInTheNextView) {
  MemberTable members = servers(2);
  const ServerTarget target{.servers = 2, .copies = 1};
  const cluster::ViewInfo view = first_view_of(members, target);
  members.find(1)->state.disconnected = true;
  cluster::ViewInfo next{.view = 2};
  place_shards(next, view, members, target);
  ASSERT_EQ(next.shards.size(), view.shards.size());
  for (std::size_t i = 0; i < next.shards.size(); ++i) {
    EXPECT_EQ(next.shards[i].primary, 2);
    EXPECT_EQ(next.shards[i].born, view.shards[i].primary == 1 ? 2 : 1) << i;
  }
}

TEST(ShardPlan, SurplusServerIsReleasedOnceItHoldsNothing) {
  MemberTable members = servers(2);
  cluster::ViewInfo view = first_view_of(members, {.servers = 2});
  const ServerTarget fewer{.servers = 1};
  EXPECT_FALSE(may_go(*members.find(2), view, fewer));
  for (cluster::ShardPlace& place : view.shards) place = {.primary = 1, .replica = 2, .in_sync = true};
  EXPECT_FALSE(may_go(*members.find(2), view, fewer));
  for (cluster::ShardPlace& place : view.shards) place = {.primary = 1};
  EXPECT_TRUE(may_go(*members.find(2), view, fewer));
  EXPECT_FALSE(may_go(*members.find(2), view, {.servers = 2}));
  EXPECT_FALSE(may_go(*members.find(1), view, fewer));
}

TEST(ShardPlan, WorkersAreNotReleasedForHoldingNothing) {
  MemberTable members;
  const Member& worker = members.add({.id = 1, .slot = 5}, Role::kWorker);
  EXPECT_FALSE(may_go(worker, {.view = 1}, {.servers = 1}));
}

TEST(ShardPlan, CountsShardsWithoutReplicasInSync) {
  MemberTable members = servers(2);
  cluster::ViewInfo view = first_view_of(members, {.servers = 2, .copies = 2});
  mark_in_sync(view);
  EXPECT_EQ(copies_due(view, {.servers = 2, .copies = 2}), 0);
  view.shards[0].in_sync = false;
  view.shards[1].replica = 0;
  EXPECT_EQ(copies_due(view, {.servers = 2, .copies = 2}), 2);
  EXPECT_EQ(copies_due(view, {.servers = 2, .copies = 1}), 0);
}

}  // namespace
}  // namespace trireme::master
