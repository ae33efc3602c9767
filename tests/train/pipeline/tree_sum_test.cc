#include "train/pipeline/tree_sum.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "base/numbers/lanes.h"

namespace trireme::parallel {
namespace {

torch::Tensor sum_in_order(const std::vector<torch::Tensor>& values, Lane first, Lane count) {
  if (count == 1) return values[first].clone();
  const Lane left = left_lanes(count);
  return sum_in_order(values, first, left) + sum_in_order(values, first + left, count - left);
}

TEST(TreeSum, AnyOrderGivesTheBitsOfTheTree) {
  std::mt19937 random(1);
  for (Lane lanes = 1; lanes <= 17; ++lanes) {
    std::vector<torch::Tensor> values;
    for (Lane lane = 0; lane < lanes; ++lane) values.push_back(torch::randn({5}) * std::pow(10.0, lane % 7));
    const torch::Tensor wanted = sum_in_order(values, 0, lanes);
    const auto tree = std::make_shared<const LaneTree>(lanes);
    std::vector<Lane> order(lanes);
    std::iota(order.begin(), order.end(), 0);
    for (int round = 0; round < 10; ++round) {
      TreeSum sum(tree);
      torch::Tensor result = torch::full({5}, 99.0f);
      for (Lane i = 0; i < lanes; ++i) EXPECT_EQ(sum.add(order[i], values[order[i]].clone(), result), i + 1 == lanes);
      EXPECT_TRUE(torch::equal(result, wanted)) << lanes;
      std::ranges::shuffle(order, random);
    }
  }
}

TEST(TreeSum, UndefinedIsZero) {
  const auto tree = std::make_shared<const LaneTree>(3);
  TreeSum sum(tree);
  torch::Tensor result = torch::full({2}, 99.0f);
  sum.add(2, {}, result);
  sum.add(0, {}, result);
  EXPECT_TRUE(sum.add(1, torch::tensor({1.0f, -0.0f}), result));
  EXPECT_TRUE(torch::equal(result, torch::tensor({1.0f, 0.0f})));
  EXPECT_FALSE(std::signbit(result[1].item<float>())) << "0 + -0, as if zeros had been added";
}

}  // namespace
}  // namespace trireme::parallel
