#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/cluster/master.h"

namespace trireme::cluster {
namespace {

using ::testing::HasSubstr;

TEST(JudgeMember, TheQuietAndTheLeftAreWell) {
  EXPECT_FALSE(judge_member({.silent_for = 3000ms}, 3s).lost);
  EXPECT_FALSE(judge_member({.left = true, .disconnected = true, .silent_for = 1h}, 3s).lost);
}

TEST(JudgeMember, TheDeadAndTheHungAreNamed) {
  const Health dead = judge_member({.role = Role::kServer, .rank = 2, .pid = 77, .disconnected = true}, 3s);
  EXPECT_TRUE(dead.lost);
  EXPECT_THAT(dead.reason, HasSubstr("server 2 (pid 77) died"));
  const Health hung = judge_member({.role = Role::kWorker, .rank = 1, .pid = 78, .silent_for = 3200ms}, 3s);
  EXPECT_TRUE(hung.lost);
  EXPECT_THAT(hung.reason, HasSubstr("worker 1 (pid 78) hangs: no heartbeat for 3.2 s"));
}

TEST(DescribeMissing, NamesEachOne) {
  EXPECT_EQ(describe_missing(2, 1, {}), "server 0, worker 0, worker 1");
  const std::vector<MemberState> here{{.role = Role::kServer, .rank = 0},
                                      {.role = Role::kWorker, .rank = 0, .disconnected = true},
                                      {.role = Role::kWorker, .rank = 1}};
  EXPECT_EQ(describe_missing(2, 1, here), "worker 0");
  EXPECT_EQ(describe_missing(0, 1, here), "");
}

}  // namespace
}  // namespace trireme::cluster
