#include "cluster/resolvers/start_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/resolvers/node_list.h"
#include "tests/support/expect_fails.h"

namespace trireme::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const StartWish kWish{.servers = 1, .private_folder = "/private", .working_folder = "/shared"};

StartWish with_secret() {
  StartWish wish = kWish;
  wish.has_secret = true;
  return wish;
}

LauncherPlace mpi_rank(Rank rank, std::uint32_t local_ranks) {
  return {.launcher = Launcher::kOpenMpi,
          .rank = rank,
          .ranks = 4,
          .local_rank = rank % local_ranks,
          .local_ranks = local_ranks,
          .job = "mpi-7"};
}

LauncherPlace torchrun_rank(Rank rank) {
  return {.launcher = Launcher::kTorchrun,
          .rank = rank,
          .ranks = 4,
          .local_rank = rank % 2,
          .local_ranks = 2,
          .node = rank / 2,
          .nodes = 2,
          .master = net::Address{.host = "a", .port = 29500},
          .port_is_ours = false,
          .job = "torchrun-x"};
}

TEST(StartPlan, OnOneHostTheFirstRankHostsMasterAndServerOnLoopback) {
  const StartPlan first = plan_start(mpi_rank(0, 4), kWish);
  EXPECT_EQ(first.workers, 4u);
  EXPECT_THAT(first.own_workers, ElementsAre(0));
  EXPECT_THAT(first.own_servers, ElementsAre(0));
  EXPECT_EQ(first.master, MasterHost::kHere);
  EXPECT_TRUE(first.leads);
  EXPECT_TRUE(first.loopback);
  EXPECT_EQ(first.meeting_file, "/private/.trireme-mpi-7-0.json");

  const StartPlan other = plan_start(mpi_rank(2, 4), kWish);
  EXPECT_THAT(other.own_workers, ElementsAre(2));
  EXPECT_THAT(other.own_servers, IsEmpty());
  EXPECT_EQ(other.master, MasterHost::kElsewhere);
  EXPECT_FALSE(other.leads);
  EXPECT_EQ(other.meeting_file, first.meeting_file);
}

TEST(StartPlan, BetweenHostsMpiMeetsInTheWorkingFolder) {
  const StartPlan plan = plan_start(mpi_rank(1, 2), kWish);
  EXPECT_FALSE(plan.loopback);
  EXPECT_EQ(plan.meeting_file, "/shared/.trireme-mpi-7-0.json");
}

TEST(StartPlan, ARestartMeetsElsewhere) {
  LauncherPlace place = mpi_rank(1, 4);
  place.restarts = 2;
  EXPECT_EQ(plan_start(place, kWish).meeting_file, "/private/.trireme-mpi-7-2.json");
}

TEST(StartPlan, TorchrunsAgentsMeetWhateverTheyCount) {
  StartWish shared = kWish;
  shared.meeting_folder = "/nfs";
  LauncherPlace place = torchrun_rank(3);
  place.restarts = 2;  // of this node alone: others may not have failed
  EXPECT_EQ(plan_start(place, shared).meeting_file, plan_start(torchrun_rank(0), shared).meeting_file);
}

TEST(StartPlan, TwoJobsOfMpichOnOneHostMeetApart) {
  LauncherPlace place = mpi_rank(1, 4);
  place.launcher = Launcher::kMpich;
  place.names_job = false;
  StartWish wish = kWish;
  wish.mpi_parent = "71.3300";
  EXPECT_EQ(plan_start(place, wish).meeting_file, "/private/.trireme-mpi-7-71.3300-0.json");
}

TEST(StartPlan, BetweenHostsMpichHasToNameTheJob) {
  LauncherPlace place = mpi_rank(1, 2);
  place.launcher = Launcher::kMpich;
  place.names_job = false;
  EXPECT_FAILS(plan_start(place, kWish), InvalidArgument, "PMI_PORT", "TRIREME_RENDEZVOUS");
  StartWish shared = kWish;
  shared.meeting_folder = "/nfs/job7";
  EXPECT_EQ(plan_start(place, shared).meeting_file, "/nfs/job7/.trireme-mpi-7-0.json");
  place.names_job = true;
  EXPECT_EQ(plan_start(place, kWish).meeting_file, "/shared/.trireme-mpi-7-0.json");
}

TEST(StartPlan, ServersAreWithWorkersOfTheSameRank) {
  StartWish wish = kWish;
  wish.servers = 6;
  EXPECT_THAT(plan_start(mpi_rank(1, 4), wish).own_servers, ElementsAre(1, 5));
  EXPECT_THAT(plan_start(mpi_rank(3, 4), wish).own_servers, ElementsAre(3));
}

TEST(StartPlan, ServersPerHostAreWithTheFirstProcessOfEach) {
  StartWish wish = with_secret();
  wish.servers_per_host = 2;
  EXPECT_THAT(plan_start(torchrun_rank(0), wish).own_servers, ElementsAre(0, 1));
  EXPECT_THAT(plan_start(torchrun_rank(1), wish).own_servers, IsEmpty());
  EXPECT_THAT(plan_start(torchrun_rank(2), wish).own_servers, ElementsAre(2, 3));
  EXPECT_EQ(plan_start(torchrun_rank(3), wish).servers, 4u);
  EXPECT_FAILS(plan_start(mpi_rank(0, 2), wish), InvalidArgument, "--servers-per-host 2: Open MPI");
}

TEST(StartPlan, BetweenHostsTorchrunNeedsASecret) {
  EXPECT_FAILS(plan_start(torchrun_rank(0), kWish), InvalidArgument, "TRIREME_SECRET_FILE");
  StartWish shared = kWish;
  shared.meeting_folder = "/nfs";
  EXPECT_EQ(plan_start(torchrun_rank(3), shared).meeting_file, "/nfs/.trireme-torchrun-x.json");
}

TEST(StartPlan, WhoHasTheAddressHostsTheMasterAtAPortOfItsOwn) {
  const StartPlan first = plan_start(torchrun_rank(0), with_secret());
  EXPECT_EQ(first.master, MasterHost::kWhoCanBind);
  EXPECT_TRUE(first.meeting_file.empty());
  EXPECT_EQ(first.master_at.host, "a");
  EXPECT_GE(first.master_at.port, 61440);
  EXPECT_EQ(plan_start(torchrun_rank(2), with_secret()).master, MasterHost::kWhoCanBind);
  EXPECT_EQ(plan_start(torchrun_rank(3), with_secret()).master, MasterHost::kElsewhere);
  EXPECT_EQ(plan_start(torchrun_rank(3), with_secret()).master_at.port, first.master_at.port);
}

TEST(StartPlan, ANodeStartsItsWorkersItself) {
  const LauncherPlace node{.launcher = Launcher::kKubeflow,
                           .rank = 1,
                           .ranks = 2,
                           .node = 1,
                           .nodes = 2,
                           .per_node = true,
                           .workers_per_node = 3,
                           .master = net::Address{.host = "a", .port = 29400},
                           .job = "kubeflow"};
  const StartPlan plan = plan_start(node, with_secret());
  EXPECT_EQ(plan.workers, 6u);
  EXPECT_THAT(plan.own_workers, ElementsAre(3, 4, 5));
  EXPECT_EQ(plan.master_at.text(), "a:29400");
}

TEST(StartPlan, PsLitesRanksAreGivenOutByTheMaster) {
  LauncherPlace place{.launcher = Launcher::kPsLite,
                      .ranks = 2,
                      .master = net::Address{.host = "10.0.0.1", .port = 9000},
                      .job = "dmlc",
                      .role = PsLiteRole::kServer,
                      .servers = 1};
  EXPECT_TRUE(plan_start(place, with_secret()).claims_slot);
  EXPECT_EQ(plan_start(place, with_secret()).master, MasterHost::kElsewhere);
  place.role = PsLiteRole::kScheduler;
  EXPECT_FALSE(plan_start(place, with_secret()).claims_slot);
  EXPECT_EQ(plan_start(place, with_secret()).master, MasterHost::kHere);
  EXPECT_EQ(plan_start(place, with_secret()).master_at.text(), "10.0.0.1:9000");
  EXPECT_EQ(plan_start(place, with_secret()).servers, 1u);
}

TEST(NodeList, ExpandsSlurmsShortForms) {
  EXPECT_THAT(expand_node_list("L", "n[001,007-009],b2"), ElementsAre("n001", "n007", "n008", "n009", "b2"));
  EXPECT_THAT(expand_node_list("L", "r[1-2]n[3,5]"), ElementsAre("r1n3", "r1n5", "r2n3", "r2n5"));
  EXPECT_THAT(expand_node_list("L", "host"), ElementsAre("host"));
  EXPECT_THAT(expand_tasks_per_node("T", "2(x3),1"), ElementsAre(2, 2, 2, 1));
  for (const char* bad : {"", "n[1-", "n[2-1]", "n[a]", "n]", "n[1-99999999]", "a,,b"}) {
    EXPECT_FAILS(expand_node_list("LIST", bad), InvalidArgument, "LIST");
  }
  for (const char* bad : {"", "x", "2(x", "2(x3", "2(xx)"}) {
    EXPECT_FAILS(expand_tasks_per_node("TASKS", bad), InvalidArgument, "TASKS");
  }
}

}  // namespace
}  // namespace trireme::cluster
