#include "elastic/transfers.h"

#include <map>

#include <gtest/gtest.h>

#include "base/random.h"

namespace trireme {
namespace {

TEST(Transfers, WhoHasItKeepsIt) {
  const StateRanges all{{0, 0, 100}};
  const std::vector<StateRanges> has{all, all};
  const TransferPlan plan = plan_transfers(has, has);
  EXPECT_TRUE(plan.missing.empty());
  EXPECT_EQ(plan.transfers, (std::vector<Transfer>{{0, 0, {0, 0, 100}}, {1, 1, {0, 0, 100}}}));
}

TEST(Transfers, HalvesBecomeThirds) {
  const std::vector<StateRanges> has{{{0, 0, 50}}, {{0, 50, 50}}, {}};
  const std::vector<StateRanges> needs{{{0, 0, 34}}, {{0, 34, 33}}, {{0, 67, 33}}};
  const TransferPlan plan = plan_transfers(has, needs);
  EXPECT_TRUE(plan.missing.empty());
  EXPECT_EQ(plan.transfers,
            (std::vector<Transfer>{{0, 0, {0, 0, 34}}, {0, 1, {0, 34, 16}}, {1, 1, {0, 50, 17}}, {1, 2, {0, 67, 33}}}));
}

TEST(Transfers, WhatNobodyHasIsNamedOnce) {
  const std::vector<StateRanges> has{{{0, 0, 10}, {1, 5, 5}}, {}};
  const std::vector<StateRanges> needs{{{0, 0, 20}, {1, 0, 10}}, {{0, 15, 10}}};
  EXPECT_EQ(plan_transfers(has, needs).missing, (StateRanges{{0, 10, 15}, {1, 0, 5}}));
}

TEST(Transfers, SeveralThatHaveItShareTheWork) {
  const StateRanges all{{0, 0, 10}, {1, 0, 10}};
  const std::vector<StateRanges> has{all, all, {}};
  const std::vector<StateRanges> needs{{}, {}, all};
  const TransferPlan plan = plan_transfers(has, needs);
  ASSERT_EQ(plan.transfers.size(), 2u);
  EXPECT_NE(plan.transfers[0].from, plan.transfers[1].from);
}

TEST(Transfers, AnythingCanBecomeAnything) {
  // Random cuts of three tensors among up to five ranks, before and after: each byte that is needed comes once.
  RandomStream random(7);
  for (int round = 0; round < 200; ++round) {
    const auto cut = [&](std::uint32_t ranks) {
      std::vector<StateRanges> parts(5);
      for (std::uint32_t tensor = 0; tensor < 3; ++tensor) {
        for (std::uint64_t at = 0; at < 60;) {
          const std::uint64_t length = std::min<std::uint64_t>(60 - at, 1 + random.below(30));
          StateRanges& own = parts[random.below(ranks)];
          if (!own.empty() && own.back().tensor == tensor && own.back().offset + own.back().length == at) {
            own.back().length += length;
          } else {
            own.push_back({tensor, at, length});
          }
          at += length;
        }
      }
      return parts;
    };
    const auto has = cut(1 + static_cast<std::uint32_t>(random.below(5)));
    const auto needs = cut(1 + static_cast<std::uint32_t>(random.below(5)));
    const TransferPlan plan = plan_transfers(has, needs);
    EXPECT_TRUE(plan.missing.empty());
    std::map<std::pair<std::uint32_t, std::uint64_t>, int> times;
    for (const Transfer& transfer : plan.transfers) {
      for (std::uint64_t k = 0; k < transfer.range.length; ++k)
        ++times[{transfer.range.tensor, transfer.range.offset + k}];
    }
    EXPECT_EQ(times.size(), 180u);
    for (const auto& [at, count] : times) EXPECT_EQ(count, 1);
  }
}

}  // namespace
}  // namespace trireme
