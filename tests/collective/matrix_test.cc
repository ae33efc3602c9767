// Every collective on every number of ranks and every transport, against the serial reference.
#include <algorithm>

#include "tests/collective/suite.h"
#include "tests/collective/testing.h"
#include "tests/support/exhaustive.h"

namespace trireme::collective {
namespace {

struct Setting {
  TransportCase transport;
  std::uint32_t ranks;
  Scope::Large large;
};

struct MatrixTest : ::testing::TestWithParam<Setting> {};

constexpr auto kFew = Scope::Large::kFew;  // many ranks and sockets on few cores are slow
constexpr auto kAll = Scope::Large::kAll;

INSTANTIATE_TEST_SUITE_P(Over, MatrixTest,
                         ::testing::Values(Setting{kShm, 1, kAll}, Setting{kShm, 2, kAll}, Setting{kShm, 3, kFew},
                                           Setting{kShm, 4, kFew}, Setting{kShm, 7, kFew}, Setting{kTcp, 2, kFew},
                                           Setting{kTcp, 3, kFew}, Setting{kTcp, 4, kFew}, Setting{kTcp, 7, kFew},
                                           Setting{kTls, 3, kFew}),
                         [](const auto& test) {
                           return fmt::format("{}{}", test.param.transport.name, test.param.ranks);
                         });

TEST_P(MatrixTest, EverythingAgreesWithTheReference) {
  const Setting& setting = GetParam();
  expect_ranks(setting.ranks, {.transport = setting.transport.transport}, [&](Communicator& ranks) {
    EXPECT_EQ(ranks.transport(), ranks.size() == 1 ? "alone" : setting.transport.name);
    check_everything(ranks, {.large = exhaustive() ? kAll : setting.large});
  });
}

// Ranks that share memory and others: a host's sum of 16-bit numbers is rounded before it goes over the network.
TEST(Matrix, AllOperationsMatchTheReferenceOnMixedTransports) {
  const std::vector<Rank> elsewhere = {0, 3};
  expect_ranks(
      4, {},
      [&](Communicator& ranks) {
        EXPECT_EQ(ranks.transport(), std::ranges::binary_search(elsewhere, ranks.rank()) ? "tls" : "shm+tls");
        check_everything(ranks, {.large = kFew, .any_order = true});
      },
      elsewhere);
  expect_ranks(3, {},
               [](Communicator& ranks) {
                 check_everything(ranks, {.large = kFew, .types = {DType::kF32, DType::kF64, DType::kI8, DType::kI64}});
               },
               {2});
}

}  // namespace
}  // namespace trireme::collective
