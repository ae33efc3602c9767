// A few cells of the partition matrix (`make partitions` has them all): two processes lose each other's packets until
// the master has named the reason, and then no longer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/system/survival/partition_cell.h"

namespace trireme::system_test {
namespace {

struct ChosenCell {
  const char* name;
  CutPair pair;
  CutDirection direction;
  const char* reason;
  const char* consistency = "bsp";
};

class Partitions : public ::testing::TestWithParam<ChosenCell> {};

TEST_P(Partitions, TheJobGoesOnHealsAndHasTheSameBits) {
  if (!PartitionedJob::permitted()) GTEST_SKIP() << "network namespaces are not permitted here";
  PartitionedJob job({.pair = GetParam().pair,
                      .direction = GetParam().direction,
                      .until_named = GetParam().reason,
                      .consistency = GetParam().consistency});
  const PartitionOutcome outcome = job.run();
  EXPECT_THAT(outcome.wrong, ::testing::IsEmpty());
  EXPECT_THAT(outcome.reason, ::testing::HasSubstr(GetParam().reason));
  EXPECT_TRUE(outcome.healed_s.has_value());
  EXPECT_TRUE(outcome.equal);
  if (HasFailure()) {
    for (const auto& [name, log] : job.logs()) std::printf("%s:\n%s\n", name.c_str(), log.c_str());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cells, Partitions,
    ::testing::Values(
        ChosenCell{"WorkerServer", CutPair::kWorkerServer, CutDirection::kBoth,
                   "worker 0 is left out: it and server 0 reach the master, but not each other"},
        ChosenCell{"TwoWorkersServer", CutPair::kTwoWorkersServer, CutDirection::kBoth,
                   "server 0 is left out: it and workers 0, 1 reach the master, but not each other"},
        ChosenCell{"ServerServerOneWay", CutPair::kServerServer, CutDirection::kThere, "is left out: it and server"},
        ChosenCell{"WorkerWorkerOneWay", CutPair::kWorkerWorker, CutDirection::kBack,
                   "worker 1 is left out: it and worker 0 reach the master, but not each other"},
        ChosenCell{"MasterEtcd", CutPair::kMasterEtcd, CutDirection::kBoth, "etcd did not"},
        ChosenCell{"WorkerServerAsp", CutPair::kWorkerServer, CutDirection::kBoth,
                   "worker 0 is left out: it and server 0 reach the master, but not each other", "asp"},
        ChosenCell{"WorkerWorkerAsp", CutPair::kWorkerWorker, CutDirection::kBoth, "is left out: it and worker", "asp"},
        ChosenCell{"ServerServerSsp", CutPair::kServerServer, CutDirection::kBoth, "is left out: it and server",
                   "ssp:4"}),
    [](const auto& cell) { return cell.param.name; });

}  // namespace
}  // namespace trireme::system_test
