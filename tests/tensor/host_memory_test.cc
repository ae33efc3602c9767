#include "tensor/device/host_memory.h"

#include <cstring>

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(OnHost, ContiguousTensorKeepsItsMemory) {
  const torch::Tensor tensor = torch::rand({2, 3}, torch::requires_grad());
  const torch::Tensor host = on_host(tensor);
  EXPECT_EQ(host.data_ptr(), tensor.data_ptr());
  EXPECT_FALSE(host.requires_grad());
}

TEST(OnHost, TransposedTensorIsCopiedRowByRow) {
  const torch::Tensor tensor = torch::arange(6, torch::kFloat32).view({2, 3}).t();
  const torch::Tensor host = on_host(tensor);
  EXPECT_TRUE(host.is_contiguous());
  const std::vector<float> expected{0, 3, 1, 4, 2, 5};
  ASSERT_EQ(bytes_of(host).size(), expected.size() * sizeof(float));
  EXPECT_EQ(std::memcmp(bytes_of(host).data(), expected.data(), bytes_of(host).size()), 0);
}

}  // namespace
}  // namespace trireme
