// What servers hold, saved and brought back.

#include <condition_variable>

#include "tests/ps/survival.h"

namespace trireme::ps {
namespace {

TEST_P(SurvivalTest, WhatWasFetchedCanBeRestoredOverAnything) {
  net::Loop loop("client");
  JobImage image;
  std::vector<float> expected;
  for (const bool again : {false, true}) {
    const Server one(server_options());
    const Server two(server_options());
    Client client(loop, client_options(cluster::first_view(1, {one.address(), two.address()}, 2), 1, GetParam()));
    client.open(kTables, options_of({}));
    set_initial(client);
    if (again) std::ranges::fill(client.all_parameters(), 9.0f);
    client.assign();
    if (again) client.restore(image);
    Step version = client.pull().newest;
    EXPECT_EQ(version, again ? 3u : 0u);
    const auto step = [&] {
      compute(client, {0, kLanes}, version);
      const std::uint32_t tables[] = {0, 1, 2};
      client.push(tables, info_of({0, kLanes}, version));
      version = client.finish().newest;
    };
    while (version < 3) step();
    if (!again) image = client.fetch();
    EXPECT_EQ(image.newest, 3u);
    while (version < 6) step();
    if (!again) expected = all_values(client);
    EXPECT_EQ(all_values(client), expected);
  }
}

TEST_P(SurvivalTest, ServersTakeSnapshotsAtAVersion) {
  std::mutex mutex;
  std::condition_variable arrived;
  std::vector<Snapshot> snapshots;
  ServerOptions options = server_options();
  options.on_snapshot = [&](Snapshot snapshot) {
    const std::lock_guard lock(mutex);
    snapshots.push_back(std::move(snapshot));
    arrived.notify_all();
  };
  const Server one(options);
  const Server two(options);
  net::Loop loop("client");
  Client client(loop, client_options(cluster::first_view(1, {one.address(), two.address()}, 2), 1, GetParam()));
  Client::TableOptions tables = options_of({});
  tables.checkpoint_every = 2;
  client.open(kTables, tables);
  set_initial(client);
  client.assign();
  client.pull();
  std::map<Step, std::vector<float>> expected;
  for (Step step = 0; step < 5; ++step) {
    compute(client, {0, kLanes}, step);
    const std::uint32_t all[] = {0, 1, 2};
    client.push(all, info_of({0, kLanes}, step));
    client.finish();
    expected[step + 1] = all_values(client);
  }
  std::unique_lock lock(mutex);
  ASSERT_TRUE(arrived.wait_for(lock, kPatience, [&] { return snapshots.size() == 4; }));  // versions 2 and 4 of both
  std::map<Step, std::size_t> covered;
  for (const Snapshot& snapshot : snapshots) {
    EXPECT_EQ(snapshot.updates, snapshot.version);
    for (const Snapshot::Piece& piece : snapshot.pieces) {
      std::size_t offset = piece.begin;
      for (const TableSpec& table : kTables) {
        if (table.name == piece.table) break;
        offset += table.elements;
      }
      EXPECT_TRUE(std::ranges::equal(
          piece.parameters, std::span(expected[snapshot.version]).subspan(offset).first(piece.parameters.size())));
      EXPECT_EQ(piece.state.size(), 2u);
      covered[snapshot.version] += piece.parameters.size();
    }
  }
  EXPECT_EQ(covered, (std::map<Step, std::size_t>{{2, 80'011}, {4, 80'011}}));
}

}  // namespace
}  // namespace trireme::ps
