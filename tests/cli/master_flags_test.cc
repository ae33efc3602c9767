#include "launch/job/master_flags.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/flags/declare_flag.h"

namespace trireme::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

launch::MasterFlags parse(std::vector<std::string> arguments) {
  CLI::App command("leads", "master");
  launch::MasterFlags flags;
  for_each_flag(launch::master_flags(), [&](const auto& flag) { declare_flag(command, flag, flags); });
  std::ranges::reverse(arguments);  // as CLI11 wants them
  command.parse(arguments);
  return flags;
}

TEST(MasterFlags, EachIsReadAsItWasWritten) {
  for_each_flag(launch::master_flags(), [](const auto& flag) {
    launch::MasterFlags flags;
    auto& value = flags.*flag.member;
    if constexpr (std::is_same_v<decltype(value), std::string&>) {
      value = "a text";
    } else if constexpr (std::is_same_v<decltype(value), bool&>) {
      value = true;
    } else {
      value += 7;
    }
    EXPECT_EQ(parse(to_arguments(launch::master_flags(), flags)), flags) << flag.name();
  });
}

TEST(MasterFlags, OnlyWhatDiffersFromTheDefaultIsWritten) {
  EXPECT_THAT(to_arguments(launch::master_flags(), launch::MasterFlags{}), IsEmpty());
  EXPECT_THAT(
      to_arguments(launch::master_flags(), launch::MasterFlags{.workers = 4, .standby = true, .plan_within = 0.5}),
      ElementsAre("--workers", "4", "--standby", "--plan-within", "0.5"));
}

}  // namespace
}  // namespace trireme::cli
