// What of DistributedOptimizer differs on a GPU. That the rest does not is shown by tests/dist's own tests of it, which
// run on this device as well (CMakeLists.txt).

#include <gtest/gtest.h>

#include "trireme/dist.h"

#include "tests/dist/worlds.h"

namespace trireme::dist {
namespace {

constexpr std::int64_t kWidth = 512;

std::uint64_t bytes_of_a_step(std::uint32_t size, net::Transport transport) {
  std::vector<torch::nn::Linear> nets;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    torch::manual_seed(1);
    nets.emplace_back(kWidth, kWidth);
  }
  std::uint64_t bytes = 0;
  run_worlds(
      size,
      [&](World& world) {
        torch::nn::Linear& net = nets[world.rank()];
        torch::optim::SGD sgd(net->parameters(), 0.1);
        DistributedOptimizer optimizer(world, sgd, net->named_parameters());
        const Traffic before = optimizer.traffic();
        const torch::Tensor x = torch::full({1, kWidth}, 1.0 + world.rank());
        net->forward(x).sum().backward();
        optimizer.synchronize();
        const double mean = (1.0 + size) / 2;
        EXPECT_TRUE(torch::allclose(net->weight.grad(), torch::full({kWidth, kWidth}, mean)));
        optimizer.step();
        const Traffic after = optimizer.traffic();
        if (world.rank() == 0) {
          bytes = after.sent_bytes + after.shared_bytes - before.sent_bytes - before.shared_bytes;
        }
      },
      transport);
  return bytes;
}

TEST(DistributedOptimizerOnDevice, SumsInTheDevicesMemory) {
  const std::uint64_t gradients = kWidth * (kWidth + 1) * sizeof(float);
  for (const std::uint32_t ranks : {2u, 3u}) {
    EXPECT_LT(bytes_of_a_step(ranks, net::Transport::kAuto), gradients / 100) << ranks << " ranks";
  }
  EXPECT_GE(bytes_of_a_step(2, net::Transport::kTcp), gradients / 2) << "another host: through the host's memory";
}

TEST(DistributedOptimizerOnDevice, OneRankKeepsItsGradientsWhereTheyAre) {
  torch::nn::Linear net(4, 2);
  run_worlds(1, [&](World& world) {
    torch::optim::SGD sgd(net->parameters(), 0.1);
    DistributedOptimizer optimizer(world, sgd, net->named_parameters());
    net->forward(torch::ones({1, 4})).sum().backward();
    optimizer.synchronize();
    const void* where = net->weight.grad().data_ptr();
    optimizer.zero_grad();
    net->weight.mutable_grad() = torch::zeros_like(net->weight);
    const void* given = net->weight.grad().data_ptr();
    net->forward(torch::ones({1, 4})).sum().backward();
    optimizer.step();
    EXPECT_EQ(net->weight.grad().data_ptr(), given);
    EXPECT_NE(given, where);
  });
}

}  // namespace
}  // namespace trireme::dist
