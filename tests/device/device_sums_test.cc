#include "tensor/device/device_sums.h"

#include <gmock/gmock.h>

#include "base/numbers/lanes.h"
#include "tests/collective/testing.h"

namespace trireme {
namespace {

using collective::Ranks;

/// What rank `rank` brings.
std::vector<float> own_values(Rank rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = 0.1f * static_cast<float>((i * 7 + rank * 13) % 101) - 3;
  return values;
}

void expect_sums(std::uint32_t size, net::Transport transport, const std::string& engine) {
  constexpr std::size_t kCount = 1003;
  const std::vector<LaneRange> lanes = deal_lanes(8, size);
  std::vector<std::vector<float>> all;
  std::vector<Partial> partials;
  for (Rank rank = 0; rank < size; ++rank) all.push_back(own_values(rank, kCount));
  for (Rank rank = 0; rank < size; ++rank) partials.push_back({lanes[rank], all[rank].data()});
  std::vector<float> expected(kCount);
  tree_sum(8, partials, 0, expected);
  Ranks ranks(size);
  const auto problems = ranks.run([&](Rank rank) {
    collective::Communicator group(*ranks.endpoints[rank], ranks.options(rank, {.transport = transport}));
    DeviceSums sums(kCount, torch::kCPU);
    sums.connect(group, lanes);
    EXPECT_EQ(sums.engine(), engine);
    for (int step = 0; step < 3; ++step) {
      std::ranges::copy(all[rank], sums.memory().begin());
      sums.reduce();
      EXPECT_EQ(std::vector<float>(sums.memory().begin(), sums.memory().end()), expected) << "step " << step;
    }
    sums.leave();
  });
  EXPECT_EQ(problems, std::vector<std::string>(size));
}

TEST(DeviceSums, OneRankHasItsOwn) { expect_sums(1, net::Transport::kAuto, "alone"); }

TEST(DeviceSums, RanksOfAHostSumInEachOthersMemory) {
  expect_sums(2, net::Transport::kAuto, "ipc");
  expect_sums(3, net::Transport::kAuto, "ipc");
  expect_sums(8, net::Transport::kAuto, "ipc");
}

TEST(DeviceSums, OthersGoThroughTheHostsMemoryWithTheSameBits) { expect_sums(3, net::Transport::kTcp, "host memory"); }

TEST(DeviceSums, ARankThatIsLostEndsTheOthersWait) {
  Ranks ranks(2);
  const auto problems = ranks.run([&](Rank rank) {
    collective::Communicator group(*ranks.endpoints[rank], ranks.options(rank, {}));
    DeviceSums sums(100, torch::kCPU);
    sums.connect(group, deal_lanes(2, 2));
    if (rank == 1) return;  // gone before the step
    EXPECT_THROW(sums.reduce(), PeerLost);
  });
  EXPECT_EQ(problems, std::vector<std::string>(2));
}

}  // namespace
}  // namespace trireme
