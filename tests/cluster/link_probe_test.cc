#include "cluster/link_probe.h"

#include <optional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/service.h"
#include "tests/support/eventually.h"
#include "tests/support/secret.h"

namespace trireme::cluster {
namespace {

struct Nobody final : net::RequestHandler {
  void on_request(const net::SessionPtr& /*session*/, net::InFrame /*frame*/) override {}
  void on_disconnect(const net::SessionPtr& /*session*/, const std::string& /*reason*/) override {}
};

TEST(LinkProbe, ReportsThoseThatAnswerAgainAndAgainAndNoOthers) {
  Nobody handler;
  const net::Service there({.listener = {.name = "there", .secret = kSecret}}, handler);
  const net::Service stranger({.listener = {.name = "stranger", .secret = "another secret, as long as it must be"}},
                              handler);
  std::optional<net::Service> gone(std::in_place, net::ServiceOptions{.listener = {.name = "gone", .secret = kSecret}},
                                   handler);
  const net::Address nowhere = gone->address();
  gone.reset();
  net::EventLoop loop("probe");
  LinkProbe probe(loop, {.secret = kSecret, .every = 5ms, .within = 5s});
  EXPECT_TRUE(probe.take_reached().empty());
  probe.set_targets(
      {{.id = 1, .address = nowhere}, {.id = 2, .address = there.address()}, {.id = 3, .address = stranger.address()}});
  std::set<MemberId> reached;
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(eventually([&] {
      const auto found = probe.take_reached();
      reached.insert(found.begin(), found.end());
      return !found.empty();
    }));
  }
  EXPECT_THAT(reached, ::testing::ElementsAre(2));
}

}  // namespace
}  // namespace trireme::cluster
