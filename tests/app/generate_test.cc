#include "app/generate.h"

#include <gtest/gtest.h>

namespace trireme::app {
namespace {

std::vector<int> counts(const torch::Tensor& logits, const Choice& choice, int draws) {
  RandomStream random(1);
  std::vector<int> counted(static_cast<std::size_t>(logits.size(0)));
  for (int i = 0; i < draws; ++i) ++counted[static_cast<std::size_t>(choose_token(logits, choice, random))];
  return counted;
}

TEST(ChooseToken, ZeroTemperature_IsTheLikeliest) {
  EXPECT_EQ(counts(torch::tensor({0.1, 2.0, 1.9}), {.temperature = 0}, 20), (std::vector<int>{0, 20, 0}));
}

TEST(ChooseToken, DrawsByProbability) {
  const torch::Tensor logits = torch::tensor({0.5, 0.25, 0.25}).log();
  const std::vector<int> counted = counts(logits, {}, 4000);
  EXPECT_NEAR(counted[0], 2000, 150);
  EXPECT_NEAR(counted[1], 1000, 150);
  const std::vector<int> sharper = counts(logits, {.temperature = 0.5}, 4000);  // 4 : 1 : 1
  EXPECT_NEAR(sharper[0], 2667, 150);
}

TEST(ChooseToken, TopK_LeavesTheOthersOut) {
  const std::vector<int> counted = counts(torch::tensor({1.0, 3.0, 2.0, 0.0}), {.top_k = 2}, 500);
  EXPECT_EQ(counted[0] + counted[3], 0);
  EXPECT_GT(counted[2], 0);
  EXPECT_EQ(counts(torch::tensor({1.0, 3.0}), {.top_k = 100}, 10).size(), 2u);
}

}  // namespace
}  // namespace trireme::app
