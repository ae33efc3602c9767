// A training that starts from a model that was given.

#include <gtest/gtest.h>

#include "base/error.h"
#include "ps/server.h"
#include "tests/dist/ranks.h"
#include "tests/support/expect_fails.h"
#include "tests/train/alone.h"

namespace trireme {
namespace {

/// So small a rate that hardly anything changes.
TrainOptions that_keep_parameters(const std::filesystem::path& init) {
  return {.batch = 20, .steps = 1, .lanes = 2, .init = init, .lr = 1e-30, .threads = 1};
}

/// The first layer is frozen, and there is a buffer; each call makes other values.
Model make_partly_frozen() {
  torch::nn::Sequential net(torch::nn::Linear(2, 8), torch::nn::BatchNorm1d(8), torch::nn::Linear(8, 2));
  for (torch::Tensor& tensor : net[0]->parameters()) tensor.set_requires_grad(false);
  return net;
}

void expect_same_parameters(const Model& model, const Model& given) {
  const auto expected = given.module->named_parameters();
  for (const auto& item : model.module->named_parameters()) {
    EXPECT_TRUE(torch::allclose(item.value(), expected[item.key()], 0, 1e-20)) << item.key();
  }
}

class Init : public ::testing::Test {
 protected:
  const TempFolder folder_;
  const std::filesystem::path file_ = folder_ / "given.safetensors";
};

TEST_F(Init, TrainingStartsFromTheFile) {
  const Model given = make_linear();
  save_model(*given.module, file_);
  torch::manual_seed(99);
  const Model model = torch::nn::Linear(2, 2);
  AloneJob job;
  const TrainResult result = Trainer(*job, model, that_keep_parameters(file_)).fit(make_points(40));
  EXPECT_EQ(result.parameters_sha256, hash_parameters(*given.module));
  EXPECT_EQ(hash_parameters(*model.module), result.parameters_sha256);
}

TEST_F(Init, WorkersWithoutServersStartFromWhatTheChiefRead) {
  const Model given = make_partly_frozen();
  save_model(*given.module, file_);
  TrainOptions options = that_keep_parameters(file_);
  options.strategy = {.kind = cluster::StrategyChoice::Kind::kAllReduce};
  const Trained trained = train_ranks({2}, make_partly_frozen, options, make_points(40));
  for (const Model& model : trained.models) expect_same_parameters(model, given);
}

TEST_F(Init, WorkersOfServersShareWhatServersDoNotHold) {
  const Model given = make_partly_frozen();
  save_model(*given.module, file_);
  const Trained trained =
      train_ranks({.workers = 2, .servers = 1}, make_partly_frozen, that_keep_parameters(file_), make_points(40));
  for (const Model& model : trained.models) expect_same_parameters(model, given);  // frozen ones, too
}

TEST_F(Init, AModelThatDoesNotFitIsNamed) {
  save_model(*torch::nn::Linear(2, 5), file_);
  AloneJob job;
  EXPECT_FAILS(Trainer(*job, make_linear(), that_keep_parameters(file_)).fit(make_points(40)), InvalidArgument,
               "given.safetensors does not fit the model", "'weight' is Float [5, 2]");
}

TEST_F(Init, APrefixNeedsAFile) {
  AloneJob job;
  EXPECT_FAILS(Trainer(*job, make_linear(), {.init_prefix = "backbone."}), InvalidArgument, "backbone.");
}

}  // namespace
}  // namespace trireme
