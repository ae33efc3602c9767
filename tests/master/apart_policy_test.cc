#include "master/apart_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::master {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<ApartCandidate> kWorkers{{.id = 11, .slot = 0}, {.id = 12, .slot = 1}, {.id = 13, .slot = 2}};
const std::vector<ApartCandidate> kServers{{.id = 21, .slot = 0}, {.id = 22, .slot = 1}};

/// Two shards, each with a copy in sync on the other server.
std::vector<cluster::ShardPlace> copied() {
  return {{.primary = 21, .replica = 22, .in_sync = true}, {.primary = 22, .replica = 21, .in_sync = true}};
}

TEST(LeaveOutServers, NobodyWhereAllReachEachOther) {
  EXPECT_THAT(leave_out_servers(kServers, kWorkers, {}, copied()).members, IsEmpty());
  EXPECT_THAT(leave_out_servers(kServers, kWorkers, {{11, 12}}, copied()).members, IsEmpty()) << "workers";
}

TEST(LeaveOutServers, OneThatOneWorkerDoesNotReachStays) {
  EXPECT_THAT(leave_out_servers(kServers, kWorkers, {{11, 21}}, copied()).members, IsEmpty());
  const LeftOut out = leave_out_workers(kWorkers, kServers, {{11, 21}});
  EXPECT_THAT(out.members, ElementsAre(11));
  EXPECT_EQ(out.reason, "; worker 0 is left out: it and server 0 reach the master, but not each other");
}

TEST(LeaveOutServers, OneThatSeveralWorkersDoNotReachGoesIfNothingIsLostWithIt) {
  const std::vector<ApartPair> apart{{11, 21}, {13, 21}};
  const LeftOut out = leave_out_servers(kServers, kWorkers, apart, copied());
  EXPECT_THAT(out.members, ElementsAre(21));
  EXPECT_EQ(out.reason, "; server 0 is left out: it and workers 0, 2 reach the master, but not each other");
  EXPECT_THAT(leave_out_workers(kWorkers, {kServers[1]}, apart).members, IsEmpty());
  EXPECT_EQ(leave_out_servers(kServers, {kWorkers[2], kWorkers[0]}, apart, copied()).reason, out.reason);

  auto shards = copied();
  shards[0].in_sync = false;
  EXPECT_THAT(leave_out_servers(kServers, kWorkers, apart, shards).members, IsEmpty());
  EXPECT_THAT(leave_out_workers(kWorkers, kServers, apart).members, ElementsAre(11, 13));
  shards[0].replica = 0;
  EXPECT_THAT(leave_out_servers(kServers, kWorkers, apart, shards).members, IsEmpty()) << "no copy at all";
}

TEST(LeaveOutServers, OneThatTheOnlyWorkerDoesNotReachGoes) {
  EXPECT_THAT(leave_out_servers(kServers, {kWorkers[0]}, {{11, 22}}, copied()).members, ElementsAre(22));
}

TEST(LeaveOutServers, OneThatHoldsNothingWaitsForEveryWorker) {
  const std::vector<cluster::ShardPlace> elsewhere{{.primary = 21}};
  EXPECT_THAT(leave_out_servers(kServers, kWorkers, {{12, 22}}, elsewhere).members, ElementsAre(22));
}

TEST(LeaveOutServers, WorkersThatReachNoServerDoNotCount) {
  const std::vector<ApartPair> apart{{11, 21}, {11, 22}, {12, 21}, {12, 22}};
  EXPECT_THAT(leave_out_servers(kServers, kWorkers, apart, copied()).members, IsEmpty());
  const LeftOut out = leave_out_workers(kWorkers, kServers, apart);
  EXPECT_THAT(out.members, ElementsAre(11, 12));
  EXPECT_THAT(out.reason, ::testing::HasSubstr("worker 0 is left out: it and servers 0, 1 reach the master"));
}

TEST(LeaveOutServers, TheLastServerStays) {
  const std::vector<cluster::ShardPlace> shards{{.primary = 21}};
  EXPECT_THAT(leave_out_servers({kServers[0]}, kWorkers, {{11, 21}, {12, 21}, {13, 21}}, shards).members, IsEmpty());
  EXPECT_THAT(leave_out_workers(kWorkers, {kServers[0]}, {{11, 21}, {12, 21}, {13, 21}}).members,
              ElementsAre(11, 12, 13));
}

TEST(LeaveOutServers, OfTwoTheOneWithFewerPrimariesGoes) {
  auto shards = copied();
  EXPECT_THAT(leave_out_servers(kServers, kWorkers, {{21, 22}}, shards).members, ElementsAre(22));
  shards.push_back({.primary = 22, .replica = 21, .in_sync = true});
  const LeftOut out = leave_out_servers(kServers, kWorkers, {{21, 22}}, shards);
  EXPECT_THAT(out.members, ElementsAre(21));
  EXPECT_EQ(out.reason, "; server 0 is left out: it and server 1 reach the master, but not each other");
}

TEST(LeaveOutServers, OfTwoTheOneWithoutWhichNothingIsLostGoes) {
  auto shards = copied();
  shards.push_back({.primary = 22, .replica = 21, .in_sync = false});
  shards.push_back({.primary = 21, .replica = 22, .in_sync = true});
  shards.push_back({.primary = 21, .replica = 22, .in_sync = true});
  EXPECT_THAT(leave_out_servers(kServers, kWorkers, {{21, 22}}, shards).members, ElementsAre(21));
}

TEST(LeaveOutServers, OneThatAWorkerDoesNotReachEitherGoesFirst) {
  EXPECT_THAT(leave_out_servers(kServers, kWorkers, {{21, 22}, {12, 21}}, copied()).members, ElementsAre(21));
}

TEST(LeaveOutWorkers, ThoseThatReachFewestOthersGoFirst) {
  EXPECT_THAT(leave_out_workers(kWorkers, {}, {{11, 12}, {11, 13}}).members, ElementsAre(11));
  EXPECT_THAT(leave_out_workers(kWorkers, {}, {{11, 12}}).members, ElementsAre(12)) << "the last one of the two";
  EXPECT_THAT(leave_out_workers(kWorkers, kServers, {{11, 12}, {12, 22}}).members, ElementsAre(12));
}

TEST(WithoutUnreachedCopies, DropsOnlyThose) {
  std::vector<cluster::ShardPlace> shards{{.primary = 21, .replica = 22, .in_sync = true},
                                          {.primary = 23, .replica = 22, .in_sync = true, .filling = 21},
                                          {.primary = 21, .replica = 23, .in_sync = true, .filling = 22},
                                          {.primary = 22, .replica = 21, .in_sync = true, .filling = 23}};
  const auto left = without_unreached_copies(shards, {{21, 22}});
  EXPECT_EQ(left[0], (cluster::ShardPlace{.primary = 21}));
  EXPECT_EQ(left[1], shards[1]);
  EXPECT_EQ(left[2], (cluster::ShardPlace{.primary = 21, .replica = 23, .in_sync = true}));
  EXPECT_EQ(left[3], (cluster::ShardPlace{.primary = 22, .replica = 23, .in_sync = false})) << "it is being built";
}

}  // namespace
}  // namespace trireme::master
