// Servers and workers that die at any moment: nothing is lost, nothing counts twice, bit by bit.

#include "tests/ps/survival.h"

#include <thread>

#include "ps/replica_link.h"
#include "tests/ps/server_process.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"

namespace trireme::ps {
namespace {

INSTANTIATE_TEST_SUITE_P(Over, SurvivalTest, ::testing::Values(net::Transport::kShm, net::Transport::kTcp),
                         [](const auto& test) { return to_string(test.param); });

TEST_P(SurvivalTest, ReplicationChangesNoBit) {
  constexpr Step kSteps = 8;
  std::vector<std::unique_ptr<Server>> servers;
  std::vector<net::Address> addresses;
  for (int i = 0; i < 3; ++i)
    addresses.push_back(servers.emplace_back(std::make_unique<Server>(server_options()))->address());
  Cluster cluster(2, addresses, 2);
  std::vector<float> second;
  std::thread other([&] { second = work(cluster, 2, GetParam(), kSteps); });
  const std::vector<float> first = work(cluster, 1, GetParam(), kSteps);
  other.join();
  EXPECT_EQ(first, calm(kSteps));
  EXPECT_EQ(second, first);
}

TEST_P(SurvivalTest, WorkerDeathBetweenPushesChangesNoBit) {
  constexpr Step kSteps = 8;
  const std::vector<float> expected = calm(kSteps);
  for (const std::uint32_t links : {1u, 2u}) {
    const Server one(server_options());
    const Server two(server_options());
    Cluster cluster(3, {one.address(), two.address()}, links);
    std::vector<float> first;
    std::vector<float> third;
    std::thread a([&] { first = work(cluster, 1, GetParam(), kSteps); });
    std::thread b([&] { work(cluster, 2, GetParam(), kSteps, /*dies_at=*/4); });
    std::thread c([&] { third = work(cluster, 3, GetParam(), kSteps); });
    a.join();
    b.join();
    c.join();
    EXPECT_EQ(first, expected);
    EXPECT_EQ(third, expected);
  }
}
std::string name_of(CrashPoint point) {
  const char* names[] = {"Updated", "Forwarded", "Received", "Repeated", "Confirmed", "Answered"};
  return names[static_cast<int>(point)];
}

class CrashTest : public ::testing::TestWithParam<CrashPoint> {};

INSTANTIATE_TEST_SUITE_P(At, CrashTest,
                         ::testing::Values(CrashPoint::kUpdated, CrashPoint::kForwarded, CrashPoint::kReceived,
                                           CrashPoint::kRepeated, CrashPoint::kConfirmed, CrashPoint::kAnswered),
                         [](const auto& test) { return name_of(test.param); });

TEST_P(CrashTest, AServerIsKilledAndNothingIsLostOrCountedTwice) {
  constexpr Step kSteps = 6;
  std::vector<float> expected;
  for (const int count : {1, 4, 11}) {
    ServerProcess doomed(GetParam(), count);
    ServerProcess survivor(GetParam(), 0);
    if (expected.empty()) expected = calm(kSteps);
    Cluster cluster(2, {doomed.address, survivor.address}, 2);
    bool died = false;
    cluster.before_view = [&](Cluster& c) {
      if (!died) died = eventually([&] { return doomed.dead(); });
      c.erase_server(3);  // workers are members 1 and 2
    };
    const auto transport = count == 4 ? net::Transport::kTcp : net::Transport::kShm;
    std::vector<float> second;
    std::thread other([&] { second = work(cluster, 2, transport, kSteps); });
    const std::vector<float> first = work(cluster, 1, transport, kSteps);
    other.join();
    EXPECT_TRUE(died || doomed.dead()) << "the point was not passed " << count << " times";
    EXPECT_EQ(first, expected) << count;
    EXPECT_EQ(second, expected) << count;

    net::EventLoop loop("reader");  // every chunk saw every update once
    const cluster::ViewInfo view = cluster.view();
    ClientOptions options = client_options(view, view.workers.front().id, net::Transport::kTcp);
    options.view.view += 1;
    std::erase_if(options.view.servers, [](const auto& server) { return server.id == 3; });
    for (cluster::ShardPlace& place : options.view.shards) place = {.primary = 4, .replica = 0, .in_sync = false};
    Client reader(loop, options);
    reader.open(kTables, options_of({}));
    const TablesState state = reader.fetch();
    EXPECT_EQ(state.oldest, kSteps);
    EXPECT_EQ(state.newest, kSteps);
    EXPECT_EQ(state.updates, kSteps);
  }
}

/// All copies of all chunks, those being filled among them, are the same and have made `steps` steps.
void expect_equal_copies(const cluster::ViewInfo& view, Step steps) {
  net::EventLoop loop("reader");
  std::map<MemberId, std::shared_ptr<net::Connection>> connections;
  for (const auto& server : view.servers) {
    connections[server.id] =
        net::Connection::open(loop, server.address, {.secret = kSecret, .transport = net::Transport::kTcp});
  }
  const auto most = static_cast<std::uint32_t>(view.shards.size());
  const Layout layout(kTables, useful_shards(kTables, most, most / cluster::kShardsPerServer),
                      {.max_chunk_bytes = 16u << 10});
  for (std::uint32_t chunk = 0; chunk < layout.chunks().size(); ++chunk) {
    const auto& place = view.shards[layout.chunks()[chunk].place.shard];
    const auto fetch = [&](MemberId server) {
      auto& connection = *connections.at(server);
      return connection.wait(
          connection.send({.kind = kFetch, .view = view.view, .body = net::encode_message(FetchRequest{chunk})}),
          Deadline::in(10s), "a chunk");
    };
    const auto primary = fetch(place.primary);
    const auto header = net::decode_message<ChunkHeader>(primary.body_bytes());
    EXPECT_EQ(header.version, steps);
    for (const MemberId copy : {place.replica, place.filling}) {
      if (copy == 0) continue;
      const auto replica = fetch(copy);
      EXPECT_EQ(header, net::decode_message<ChunkHeader>(replica.body_bytes()));
      EXPECT_TRUE(std::ranges::equal(primary.payload_bytes(), replica.payload_bytes())) << chunk;
    }
  }
  for (auto& [id, connection] : connections) connection->close();
}

TEST_P(SurvivalTest, ACopyBuiltUnderLoadEqualsItsOriginal) {
  // Adam, so that the state counts too; bsp, so that the load can be stopped at a step.
  const Server one(server_options());
  const Server two(server_options());
  Cluster cluster(2, {one.address()}, 2);
  const MemberId original = cluster.view().servers[0].id;
  constexpr Step kSteps = 100;
  cluster.pause_at = kSteps / 2;
  std::thread a([&] { work(cluster, 1, GetParam(), kSteps); });
  std::thread b([&] { work(cluster, 2, GetParam(), kSteps); });
  EXPECT_TRUE(eventually([&] { return cluster.progress.load() >= 3; }, kPatience));
  cluster.add_server(two.address());
  cluster.disturb();
  cluster.pause_at = kSteps;
  a.join();
  b.join();
  const auto in_sync = [&] {
    cluster.report(original, one.status());
    return std::ranges::all_of(cluster.view().shards, [](const auto& place) { return place.in_sync; });
  };
  EXPECT_TRUE(eventually(in_sync, kPatience));
  ASSERT_GT(cluster.view().view, 1u) << "the steps were over before the copy was wanted";
  expect_equal_copies(cluster.view(), kSteps);
}

TEST_P(SurvivalTest, AThirdCopyIsFilledBesideTheReplica) {
  const Server one(server_options());
  const Server two(server_options());
  const Server three(server_options());
  Cluster cluster(2, {one.address(), two.address()}, 2);
  constexpr Step kSteps = 100;
  cluster.pause_at = kSteps / 2;
  std::thread a([&] { work(cluster, 1, GetParam(), kSteps); });
  std::thread b([&] { work(cluster, 2, GetParam(), kSteps); });
  EXPECT_TRUE(eventually([&] { return cluster.progress.load() >= 3; }, kPatience));
  const MemberId newcomer = cluster.add_server(three.address());
  cluster.disturb();
  cluster.pause_at = kSteps;
  a.join();
  b.join();
  const cluster::ViewInfo moving = cluster.view();
  ASSERT_GT(moving.view, 1u) << "the steps were over before the copies were wanted";
  EXPECT_GT(std::ranges::count(moving.shards, newcomer, &cluster::ShardPlace::filling), 0);
  const auto all_in_sync = [&] {
    cluster.report(moving.servers[0].id, one.status());
    cluster.report(moving.servers[1].id, two.status());
    return std::ranges::all_of(cluster.view().shards,
                               [](const auto& place) { return place.in_sync && place.being_built() == 0; });
  };
  EXPECT_TRUE(eventually(all_in_sync));
  expect_equal_copies(moving, kSteps);
}

TEST(Survival, SilentReplicaIsReportedAndDelaysUpdatesOnlyBriefly) {
  ServerProcess silent(CrashPoint::kUpdated, 0);
  ServerOptions options = server_options();
  options.replica_timeout = 3s;
  const Server server(options);
  net::EventLoop loop("client");
  cluster::ViewInfo view = cluster::first_view(1, {server.address(), silent.address}, 2);
  for (cluster::ShardPlace& place : view.shards) place = {view.servers[0].id, view.servers[1].id, true};
  Client client(loop, client_options(view, 1, net::Transport::kShm));
  client.open(kTables, options_of({}));
  client.assign();
  client.pull();
  ::kill(silent.pid, SIGSTOP);
  ::waitpid(silent.pid, nullptr, WUNTRACED);  // until it has stopped
  compute(client, {0, kLanes}, 0);
  std::uint32_t table = 0;
  client.push({&table, 1}, info_of({0, kLanes}, 0));
  expect_ends_within(kPatience,
                     [&] { EXPECT_FAILS(client.finish(), PeerLost, "replica", "did not answer", "next view"); });
  const ServerStatus status = server.status();
  ASSERT_FALSE(status.replicas.empty());
  EXPECT_THAT(status.replicas[0].failure, ::testing::HasSubstr("did not answer"));
}

/// A report of the view before, taken for one of this view, would make the master give up a server that is well.
TEST(Survival, ReportsAreOfTheViewTheyName) {
  const Server one(server_options());
  const Server two(server_options());
  net::EventLoop loop("client");
  const auto replica_in = [](View view) { return MemberId{1000 + view}; };
  const auto next = [&](View number) {
    cluster::ViewInfo view = cluster::first_view(1, {one.address(), two.address()}, 2);
    view.view = number;
    view.servers[1].id = replica_in(number);
    for (cluster::ShardPlace& place : view.shards) place = {view.servers[0].id, view.servers[1].id, true};
    return view;
  };
  Client client(loop, client_options(next(1), 1, net::Transport::kShm));
  client.open(kTables, options_of({}));
  std::atomic<std::size_t> reports = 0;
  std::size_t of_another_view = 0;
  {
    const std::jthread master([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        const ServerStatus status = one.status();
        for (const cluster::ShardReport& report : status.replicas) {
          ++reports;
          of_another_view += report.replica == replica_in(status.view) ? 0 : 1;
        }
      }
    });
    for (View view = 2; view < 200 || (reports == 0 && view < 20'000); ++view) client.enter(next(view), 1);
  }
  EXPECT_GT(reports.load(), 0u);
  EXPECT_EQ(of_another_view, 0u);
}

}  // namespace
}  // namespace trireme::ps
