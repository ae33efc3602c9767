#include <unistd.h>

#include <future>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collective/communicator.h"
#include "tests/support/expect_fails.h"

namespace trireme::collective {
namespace {

/// Addresses of this process alone: nobody else listens on its own part of the loopback network, so ports that were
/// free a moment ago still are.
std::vector<std::string> free_addresses(std::size_t count) {
  const std::string host = fmt::format("127.{}.{}.1", 100 + ::getpid() / 250 % 100, 1 + ::getpid() % 250);
  std::vector<std::unique_ptr<Endpoint>> holders;
  std::vector<std::string> addresses;
  for (std::size_t i = 0; i < count; ++i) {
    holders.push_back(std::make_unique<Endpoint>(EndpointOptions{.host = host, .secret = "s"}));
    addresses.push_back(holders.back()->address().text());
  }
  return addresses;
}

class ConnectOver : public ::testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(ConnectOver, RanksFindEachOtherAtTheirAddresses) {
  const auto& [wanted, used] = GetParam();
  const std::vector<std::string> addresses = free_addresses(3);
  std::vector<std::future<void>> ranks;
  for (Rank rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::async(std::launch::async, [&, rank] {
      const auto group = connect({.rank = rank, .addresses = addresses, .secret = "a secret", .transport = wanted});
      std::vector<float> values(5000, static_cast<float>(rank + 1));
      group->run(all_reduce(std::span(values)));
      EXPECT_THAT(values, ::testing::Each(6.f));
      EXPECT_EQ(group->transport(), used);
      group->run(barrier());
    }));
  }
  for (auto& rank : ranks) rank.get();
}

INSTANTIATE_TEST_SUITE_P(Each, ConnectOver,
                         ::testing::Values(std::pair{"auto", "shm"}, std::pair{"tcp", "tcp"}, std::pair{"tls", "tls"}),
                         [](const auto& instance) { return instance.param.first; });

TEST(Connect, SingleRankIsAGroupOfOne) {
  const auto group = connect({.rank = 0, .addresses = free_addresses(1), .secret = "a secret"});
  std::vector<float> values{3};
  group->run(all_reduce(std::span(values)));
  EXPECT_EQ(values[0], 3);
}

TEST(Connect, RefusesInvalidOptions) {
  EXPECT_FAILS(connect({.rank = 2, .addresses = {"127.0.0.1:1", "127.0.0.1:2"}, .secret = "s"}), InvalidArgument,
               "rank 2", "2 given");
  EXPECT_FAILS(connect({.rank = 0, .addresses = {"127.0.0.1:1"}}), InvalidArgument, "need a secret");
  EXPECT_FAILS(connect({.rank = 0, .addresses = {"nonsense"}, .secret = "s"}), InvalidArgument, "nonsense");
  EXPECT_FAILS(connect({.rank = 0, .addresses = {"127.0.0.1:0"}, .secret = "s", .transport = "pigeon"}),
               InvalidArgument, "pigeon");
}

TEST(Connect, TimeoutNamesTheMissingRank) {
  EXPECT_FAILS(
      connect({.rank = 0, .addresses = free_addresses(2), .secret = "s", .within = std::chrono::milliseconds(300)}),
      Timeout, "rank 1");
}

}  // namespace
}  // namespace trireme::collective
