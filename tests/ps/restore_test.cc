// What servers hold, saved and brought back.

#include "tests/ps/survival.h"
#include "tests/support/expect_fails.h"

namespace trireme::ps {
namespace {

TEST_P(SurvivalTest, FetchedStateCanBeRestoredOverAnyState) {
  net::EventLoop loop("client");
  TablesState state;
  std::vector<float> expected;
  for (const bool again : {false, true}) {
    const Server one(server_options());
    const Server two(server_options());
    Client client(loop, client_options(cluster::first_view(1, {one.address(), two.address()}, 2), 1, GetParam()));
    client.open(kTables, options_of({}));
    set_initial(client);
    if (again) std::ranges::fill(client.all_parameters(), 9.0f);
    client.assign();
    if (again) client.restore(state);
    Step version = client.pull().newest;
    EXPECT_EQ(version, again ? 3u : 0u);
    const auto step = [&] {
      compute(client, {0, kLanes}, version);
      const std::uint32_t tables[] = {0, 1, 2};
      client.push(tables, info_of({0, kLanes}, version));
      version = client.finish().newest;
    };
    while (version < 3) step();
    if (!again) state = client.fetch();
    EXPECT_EQ(state.newest, 3u);
    while (version < 6) step();
    if (!again) expected = all_values(client);
    EXPECT_EQ(all_values(client), expected);
  }
}

/// A server that is reached through shared memory, but whose port does not listen: at first, or no more.
TEST(Restore, AServerThatCannotBeReachedLeavesNothingBehindForTheNextTry) {
  net::EventLoop loop("client");
  const Server one(server_options());
  const Server two(server_options());
  const cluster::ViewInfo right = cluster::first_view(1, {one.address(), two.address()});  // without replicas
  cluster::ViewInfo wrong = right;
  wrong.servers[1].address.port = 1;  // nobody listens on it
  Client client(loop, client_options(wrong, 1, net::Transport::kAuto));
  client.open(kTables, options_of({}));
  set_initial(client);
  client.assign();
  client.pull();
  const std::vector<float> expected = all_values(client);
  EXPECT_FAILS(client.fetch(), PeerLost, "server 1");
  EXPECT_FAILS(client.fetch(), PeerLost, "server 1");

  cluster::ViewInfo next = right;
  next.view = right.view + 1;
  client.enter(next, 1);
  const TablesState state = client.fetch();
  std::ranges::fill(client.all_parameters(), 9.0f);
  client.restore(state);
  client.pull();
  EXPECT_EQ(all_values(client), expected);
}

}  // namespace
}  // namespace trireme::ps
