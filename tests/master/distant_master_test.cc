// A master behind a long line.
#include <gtest/gtest.h>

#include "cluster/membership.h"
#include "master/master.h"
#include "tests/support/relay.h"
#include "tests/support/secret.h"

namespace trireme::master {
namespace {

// Four messages of the handshake take longer than the first attempt to reach a master may.
TEST(DistantMaster, IsReachedWithMorePatience) {
  const Master master(
      {.service = {.listener = {.name = "master", .secret = kSecret}}, .shape = {.workers = 1, .servers = 0}});
  const Relay line(master.address(), 150ms);
  net::EventLoop loop("member");
  const cluster::Membership member(
      loop, {.find_master = [&] { return std::optional(line.address()); }, .secret = kSecret}, {});
  EXPECT_EQ(member.view().workers.size(), 1u);
}

}  // namespace
}  // namespace trireme::master
