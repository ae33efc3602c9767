#include "cli/start/mesh_plan.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/expect_fails.h"
#include "tests/support/temp_folder.h"

namespace trireme::cli {
namespace {

using ::testing::HasSubstr;

/// Nothing was measured of this machine.
class MeshPlan : public ::testing::Test {
 protected:
  MeshPlan() { ::setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1); }

  TempFolder folder_;
};

const data::Schema kTokens{{.name = "tokens", .dtype = DType::kI32, .shape = {17}, .classes = {256}}};

TrainFlags gpt(std::uint32_t workers, const std::string& memory) {
  TrainFlags flags;
  flags.model = "gpt-tiny:layers=4";
  flags.strategy = "allreduce";
  flags.servers = 0;
  flags.batch = 8;
  flags.workers = workers;
  flags.memory = memory;
  return flags;
}

TEST_F(MeshPlan, KnowsTheModelByItsSamples) {
  const auto model = planned_model(gpt(2, ""), kTokens);
  ASSERT_TRUE(model);
  EXPECT_EQ(model->layers.size(), 6u);
  EXPECT_EQ(model->input.length, 16u);
  EXPECT_EQ(model->input.classes, 256u);
  TrainFlags script = gpt(2, "");
  script.model = "net.pt";
  EXPECT_FALSE(planned_model(script, kTokens));
}

TEST_F(MeshPlan, TakesPlainDataParallelismWhereItFits) {
  const TrainFlags flags = gpt(2, "1gb");
  const MeshDecision decision = decide_mesh(flags, *planned_model(flags, kTokens));
  EXPECT_EQ(decision.arrangement, (plan::Arrangement{.mesh = {.data = 2}}));
  EXPECT_THAT(decision.reason, HasSubstr("plain data parallelism"));
  EXPECT_THAT(decision.reason, HasSubstr("trireme plan --calibrate"));
}

TEST_F(MeshPlan, DividesWhatDoesNotFit_MatricesLast) {
  const TrainFlags flags = gpt(4, "2mb");
  const MeshDecision decision = decide_mesh(flags, *planned_model(flags, kTokens));
  EXPECT_GT(decision.arrangement.mesh.pipe * decision.arrangement.zero + decision.arrangement.mesh.pipe, 1u);
  EXPECT_EQ(decision.arrangement.mesh.tensor, 1u);
  EXPECT_THAT(decision.reason, HasSubstr("data parallelism alone"));
}

TEST_F(MeshPlan, KeepsWhatIsGiven) {
  const TrainFlags flags = gpt(4, "1gb");
  const MeshDecision decision = decide_mesh(flags, *planned_model(flags, kTokens), {.zero = 2, .lanes = 8});
  EXPECT_EQ(decision.arrangement.zero, 2u);
  EXPECT_EQ(decision.arrangement.mesh.data * decision.arrangement.micro_batches, 8u);
}

TEST_F(MeshPlan, KeepsGroupsOfZeroAndStagesPerWorker) {
  const TrainFlags roomy = gpt(4, "1gb");
  const auto model = planned_model(roomy, kTokens);
  EXPECT_EQ(decide_mesh(roomy, *model, {.zero = 2, .shards = 2}).arrangement.shards, 2u);
  const plan::PlanRequest interleaved{.schedule = plan::ScheduleKind::kInterleaved, .chunks = 3};
  const plan::Arrangement chosen = decide_mesh(gpt(2, "3mb"), *model, interleaved).arrangement;
  EXPECT_EQ(chosen.mesh.pipe, 2u);
  EXPECT_EQ(chosen.chunks, 3u);
}

/// zero:2 on 2 workers with 4 lanes each holds three whole buffers of gradients, and fits no better than zero:1.
TEST_F(MeshPlan, CountsGradientsThatAreSummedBeforeTheyLeave) {
  TrainFlags flags = gpt(2, "4.2mb");
  flags.strategy = "zero:2";
  flags.lanes = 2;
  check_division(flags, kTokens);
  flags.lanes = 8;
  EXPECT_FAILS(check_division(flags, kTokens), InvalidArgument, "too much");
}

TEST_F(MeshPlan, RefusesWithAdviceWhereNothingFits) {
  const TrainFlags flags = gpt(2, "1mb");
  EXPECT_FAILS(decide_mesh(flags, *planned_model(flags, kTokens)), InvalidArgument, "--workers 8");
}

TEST_F(MeshPlan, ChecksMemoryBeforeAnythingStarts) {
  check_division(gpt(1, "1gb"), kTokens);
  EXPECT_FAILS(check_division(gpt(1, "2mb"), kTokens), InvalidArgument, "this fits");
  TrainFlags table = gpt(1, "1gb");
  table.model = "wide-deep";
  EXPECT_FAILS(check_division(table, kTokens), InvalidArgument, "not known before it runs");
}

TEST_F(MeshPlan, IsForOneHost) {
  TrainFlags flags = gpt(2, "");
  flags.mesh = kAutoMesh;
  EXPECT_FAILS(check_local_plan(flags, true), InvalidArgument, "trireme plan");
  check_local_plan(flags, false);
}

}  // namespace
}  // namespace trireme::cli
