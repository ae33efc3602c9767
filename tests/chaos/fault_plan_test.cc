#include "chaos/fault_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace trireme::chaos {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<Fault> all_of(FaultPlan plan) {
  std::vector<Fault> faults;
  while (const Fault* due = plan.due(~Step{0})) {
    faults.push_back(*due);
    plan.injected();
  }
  return faults;
}

const FaultPlanOptions kMixed{.kinds = {FaultKind::kKill, FaultKind::kStop},
                              .roles = {FaultRole::kWorker, FaultRole::kServer, FaultRole::kMaster},
                              .every = 20,
                              .count = 100,
                              .seed = 7,
                              .workers = 4,
                              .servers = 2};

TEST(FaultPlan, TheSameSeedGivesTheSameFaults) {
  const auto faults = all_of(FaultPlan(kMixed));
  EXPECT_EQ(faults.size(), 100u);
  EXPECT_EQ(faults, all_of(FaultPlan(kMixed)));
  FaultPlanOptions other = kMixed;
  other.seed = 8;
  EXPECT_NE(faults, all_of(FaultPlan(other)));
}

TEST(FaultPlan, HasOneFaultPerInterval) {
  const auto faults = all_of(FaultPlan(kMixed));
  for (std::size_t i = 0; i < faults.size(); ++i) EXPECT_EQ(faults[i].due / 20, i) << faults[i].due;
}

TEST(FaultPlan, HitsEveryProcessExceptSparedOnes) {
  FaultPlanOptions options{.every = 1, .count = 200, .workers = 4, .spared = 1};
  std::set<std::uint32_t> slots;
  for (const Fault& fault : all_of(FaultPlan(options))) slots.insert(fault.slot);
  EXPECT_THAT(slots, ::testing::ElementsAre(1, 2, 3));
}

TEST(FaultPlan, CountsWhatWasInjected) {
  FaultPlan plan(kMixed);
  std::map<std::pair<FaultRole, FaultKind>, std::uint64_t> expected;
  for (std::uint64_t number = 0; number < 100; ++number) {
    const Fault fault = plan.fault(number);
    if (number % 10 == 0) {
      plan.skipped();
      continue;
    }
    ++expected[{fault.role, fault.kind}];
    plan.injected();
  }
  EXPECT_TRUE(plan.finished());
  EXPECT_EQ(plan.injections(), 90u);
  EXPECT_EQ(plan.counts(), expected);
  EXPECT_EQ(expected.size(), 6u) << "each kind for each role";
}

TEST(FaultPlan, WaitsForItsStep) {
  FaultPlan plan({.every = 20, .count = 2});
  const std::uint64_t first = plan.fault(0).due;
  EXPECT_EQ(plan.due(first - 1), nullptr);
  ASSERT_NE(plan.due(first), nullptr);
  EXPECT_EQ(*plan.due(first), plan.fault(0));
  plan.injected();
  EXPECT_EQ(*plan.due(40), plan.fault(1));
  plan.injected();
  EXPECT_EQ(plan.due(1000), nullptr);
}

TEST(FaultPlan, CountZeroNeverEnds) {
  FaultPlan plan({.count = 0});
  for (int i = 0; i < 1000; ++i) plan.injected();
  EXPECT_NE(plan.due(~Step{0}), nullptr);
}

TEST(FaultPlan, DiskFullHasTheRoleDisk) {
  for (const Fault& fault : all_of(FaultPlan({.kinds = {FaultKind::kDiskFull}})))
    EXPECT_EQ(fault.role, FaultRole::kDisk);
}

TEST(FaultPlan, RefusesInvalidOptions) {
  EXPECT_THAT([] { FaultPlan({.roles = {FaultRole::kServer}}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("has no servers")));
  EXPECT_THAT([] { parse_fault_kind("kil"); }, ThrowsMessage<InvalidArgument>(HasSubstr("did you mean 'kill'?")));
  EXPECT_THAT([] { parse_fault_role("boss"); }, ThrowsMessage<InvalidArgument>(HasSubstr("worker, server, master")));
  EXPECT_EQ(parse_fault_kind("disk-full"), FaultKind::kDiskFull);
}

}  // namespace
}  // namespace trireme::chaos
