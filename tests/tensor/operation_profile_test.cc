#include "tensor/operation_profile.h"

#include <algorithm>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include "base/file.h"
#include "tests/support/temp_folder.h"

namespace trireme {
namespace {

TEST(OperationProfile, SumsUpWhatWasComputed) {
  const TempFolder folder;
  const auto trace = folder.path() / "profile" / "trace.json";
  OperationProfile profile(torch::kCPU);
  const torch::Tensor a = torch::rand({64, 64});
  for (int i = 0; i < 3; ++i) torch::mm(a, a);
  const OperationCosts costs = profile.finish(trace);

  const auto product = std::ranges::find(costs.operations, "aten::mm", &OperationCost::name);
  ASSERT_NE(product, costs.operations.end());
  EXPECT_EQ(product->calls, 3u);
  EXPECT_EQ(product->part, "products");
  EXPECT_EQ(costs.device_seconds, 0);
  std::uint64_t traced = 0;
  const auto written = nlohmann::json::parse(read_file(trace));
  for (const auto& event : written.at("traceEvents")) {
    if (event.at("name") == "aten::mm" && event.at("dur") > 0) ++traced;
  }
  EXPECT_EQ(traced, 3u);

  double in_all = 0;
  for (const OperationCost& cost : costs.operations) in_all += cost.seconds;
  EXPECT_LE(in_all, costs.seconds * 1.001) << "an operation is not counted again in what called it";
  EXPECT_TRUE(to_json(costs).at("parts").contains("products"));
}

TEST(OperationProfile, PartsAreWhatAPersonWouldCallThem) {
  EXPECT_EQ(part_of_step("aten::addmm"), "products");
  EXPECT_EQ(part_of_step("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT"), "products");
  EXPECT_EQ(part_of_step("cudnn_generated_fort_native_sdpa_sm90_flash_fprop"), "attention");
  EXPECT_EQ(part_of_step("aten::gelu_backward"), "activations");
  EXPECT_EQ(part_of_step("aten::log_softmax"), "loss");
  EXPECT_EQ(part_of_step("Memcpy HtoD (Pageable -> Device)"), "copies");
  EXPECT_EQ(part_of_step("aten::index_put_"), "other");
}

}  // namespace
}  // namespace trireme
