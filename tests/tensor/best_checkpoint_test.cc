#include <cmath>

#include <gtest/gtest.h>

#include "trireme/checkpoint.h"

#include "base/error.h"
#include "checkpoint/safetensors/safetensors.h"
#include "tests/train/alone.h"

namespace trireme {
namespace {

float first_weight(const std::filesystem::path& path) {
  const checkpoint::SafetensorsFile file(path);
  float value = 0;
  std::memcpy(&value, file.at("weight").data.data(), sizeof(value));
  return value;
}

torch::nn::Linear linear_of(float value) {
  const torch::nn::Linear net(2, 2);
  torch::NoGradGuard no_grad;
  net->weight.fill_(value);
  return net;
}

TEST(BestCheckpoint, KeepsTheBest) {
  const TempFolder folder;
  BestCheckpoint best(folder.path() / "best.safetensors");
  EXPECT_FALSE(best.offer(*linear_of(0), std::nan("")));
  EXPECT_FALSE(best.metric().has_value());
  EXPECT_TRUE(best.offer(*linear_of(1), 0.5, "accuracy"));
  EXPECT_FALSE(best.offer(*linear_of(2), 0.4));
  EXPECT_FALSE(best.offer(*linear_of(3), 0.5));
  EXPECT_EQ(first_weight(best.path()), 1);
  EXPECT_EQ(checkpoint::SafetensorsFile(best.path()).metadata().at("accuracy"), "0.5");
  EXPECT_TRUE(best.offer(*linear_of(4), 0.6));
  EXPECT_EQ(first_weight(best.path()), 4);
  EXPECT_EQ(best.metric(), 0.6);
}

TEST(BestCheckpoint, TheLowestCanBeTheBest) {
  const TempFolder folder;
  BestCheckpoint best(folder.path() / "best.safetensors", BestCheckpoint::Best::kLowest);
  EXPECT_TRUE(best.offer(*linear_of(1), 2.0));
  EXPECT_FALSE(best.offer(*linear_of(2), 3.0));
  EXPECT_TRUE(best.offer(*linear_of(3), 1.0));
  EXPECT_EQ(first_weight(best.path()), 3);
}

TEST(SaveBest, SavesTheBestEvaluationOfATraining) {
  /// Remembers the weights at the first evaluation with the highest accuracy.
  class Witness final : public Callback {
   public:
    explicit Witness(Model model) : model_(std::move(model)) {}
    void on_evaluation(Step /*step*/, const Evaluation& evaluation, TrainControl& /*control*/) override {
      if (evaluation.metric("accuracy") <= highest_) return;
      highest_ = evaluation.metric("accuracy");
      weight = model_.module->named_parameters()["weight"][0][0].item<float>();
    }
    float weight = 0;

   private:
    Model model_;
    double highest_ = -INFINITY;
  };
  AloneJob job;
  const TempFolder folder;
  const Model model = make_linear();
  const auto witness = std::make_shared<Witness>(model);
  const auto path = folder.path() / "best.safetensors";
  // So high a rate that the model gets better and worse.
  Trainer(*job, model, {.batch = 20, .epochs = 6, .lr = 3, .callbacks = {save_best(path), witness}})
      .fit(make_points(100), make_points(40, 2));
  EXPECT_EQ(first_weight(path), witness->weight);
}

}  // namespace
}  // namespace trireme
