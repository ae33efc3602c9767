// Requests that no client of ours would send, from somebody who knows the secret.
#include "base/error.h"
#include "ps/client.h"
#include "ps/server.h"
#include "tests/support/expect_fails.h"
#include "tests/support/secret.h"

namespace trireme::ps {
namespace {

OpenRequest good_open() {
  const cluster::ViewInfo view = cluster::first_view(1, {net::Address{}});
  return {.job = {.tables = {{"t", 10'000}}, .max_chunk_bytes = 16u << 10}, .view = view, .server = view.servers[0].id};
}

struct HostileTest : ::testing::TestWithParam<net::Transport> {
  Server server{{.service = {.listener = {.name = "server", .secret = kSecret}}}};
  net::EventLoop loop{"client"};
  std::shared_ptr<net::Connection> connection =
      net::Connection::open(loop, server.address(), {.secret = kSecret, .transport = GetParam()});

  ~HostileTest() override {
    EXPECT_NO_THROW(ask<ServerStats>(kStats, Nothing{})) << "the server lives, and so does the connection";
    connection->close();
  }

  template <typename Reply, typename Ask>
  Reply ask(std::uint16_t kind, const Ask& body) {
    return connection->call<Reply>(kind, view, body, Deadline::in(10s), "something");
  }

  void open() { ask<OpenReply>(kOpen, good_open()); }

  View view = 1;

  StepOutcome push_pull(const PushPullRequest& request, std::size_t payload_bytes, std::uint16_t kind = kPushPull) {
    const std::vector<std::byte> payload(payload_bytes);
    const auto pending =
        connection->send({.kind = kind, .view = view, .body = net::encode_message(request), .payload = {payload}});
    return net::decode_message<StepOutcome>(connection->wait(pending, Deadline::in(10s), "it").body_bytes());
  }

  static PushPullRequest push_of(std::vector<std::uint32_t> chunks) {
    return {.info = {.lanes = {0, 1}, .samples = 1, .lr = 0.1}, .push = true, .chunks = std::move(chunks)};
  }
};

INSTANTIATE_TEST_SUITE_P(Over, HostileTest, ::testing::Values(net::Transport::kShm, net::Transport::kTcp),
                         [](const auto& test) { return to_string(test.param); });

TEST_P(HostileTest, RefusesRequestsBeforeTheTablesAreOpen) {
  EXPECT_FAILS(push_pull(push_of({0}), 0), InvalidArgument, "no tables yet");
  EXPECT_FAILS(ask<Done>(kLeave, LeaveRequest{0}), InvalidArgument, "no tables yet");
  EXPECT_FAILS(ask<Done>(99, Nothing{}), InvalidArgument, "kind 99");
  EXPECT_FAILS(ask<Done>(kOpen, Nothing{}), Corrupt, "job");
}

TEST_P(HostileTest, RefusesInvalidTables) {
  const auto refused = [&](const auto& change) {
    OpenRequest request = good_open();
    change(request);
    EXPECT_THROW(ask<OpenReply>(kOpen, request), InvalidArgument) << nlohmann::json(request).dump();
  };
  refused([](OpenRequest& r) { r.job.tables.clear(); });
  refused([](OpenRequest& r) { r.job.tables[0].elements = 0; });
  refused([](OpenRequest& r) { r.job.tables[0].elements = ~std::uint64_t{0}; });
  refused([](OpenRequest& r) { r.job.tables[0].elements = std::uint64_t{1} << 40; });
  refused([](OpenRequest& r) { r.job.max_chunk_bytes = 0; });
  refused([](OpenRequest& r) { r.job.shards = 0; });
  refused([](OpenRequest& r) { r.server = 1; });
  refused([](OpenRequest& r) { r.job.shards = 0xffffffff; });
  refused([](OpenRequest& r) { r.job.lanes = 0; });
  refused([](OpenRequest& r) { r.job.update.beta1 = 2; });
  refused([](OpenRequest& r) { r.job.consistency.backup_workers = 5; });
  refused([](OpenRequest& r) { r.job.consistency.mode = static_cast<Consistency::Mode>(9); });
  refused([](OpenRequest& r) { r.view.workers.clear(); });
  refused([](OpenRequest& r) { r.view.servers.clear(); });
  refused([](OpenRequest& r) { r.view.shards.clear(); });
  refused([](OpenRequest& r) { r.view.shards[0].primary = 99; });
  refused([](OpenRequest& r) { r.view.shards[0].replica = r.view.shards[0].primary; });
  refused([](OpenRequest& r) { r.view.view = 2; });
  open();
}

TEST_P(HostileTest, ChunksAndSizesThatDoNotExist) {
  open();
  const auto chunks = static_cast<std::uint32_t>(server.stats().chunks);
  EXPECT_FAILS(push_pull(push_of({chunks}), 0), InvalidArgument, "no chunk");
  EXPECT_FAILS(push_pull(push_of({0xffffffff}), 0), InvalidArgument, "no chunk");
  EXPECT_FAILS(push_pull(push_of({}), 0), InvalidArgument, "no chunk");
  EXPECT_FAILS(push_pull(push_of({0}), 12), Corrupt, "12 bytes");
  EXPECT_FAILS(push_pull(push_of({0}), 0), Corrupt, "0 bytes");
  PushPullRequest pull{.pull = true, .chunks = {0}};
  EXPECT_FAILS(push_pull(pull, 8), Corrupt, "8 bytes");
  pull.chunks = std::vector<std::uint32_t>(20'000, 0);
  EXPECT_FAILS(push_pull(pull, 0), InvalidArgument, "20000 chunks");
  EXPECT_FAILS(push_pull(push_of({0}), 0, kAssign), Corrupt, "0 bytes");
}

TEST_P(HostileTest, RefusesInvalidWorkersLanesAndNumbers) {
  open();
  const Layout layout(good_open().job.tables, 1, {.max_chunk_bytes = 16u << 10});
  const std::size_t bytes = layout.chunks()[0].place.count * sizeof(float);
  const auto refused = [&](const auto& change) {
    PushPullRequest request = push_of({0});
    change(request);
    EXPECT_THROW(push_pull(request, bytes), InvalidArgument);
  };
  refused([](PushPullRequest& r) { r.worker = 1; });
  refused([](PushPullRequest& r) { r.info.lanes.first = 1; });
  refused([](PushPullRequest& r) { r.info.lanes.count = 0; });
  refused([](PushPullRequest& r) { r.info.samples = -1; });
  refused([](PushPullRequest& r) { r.info.lr = std::nan(""); });
  EXPECT_EQ(push_pull(push_of({0}), bytes).newest, 1u);
}

TEST_P(HostileTest, RefusesMissingOrTooSmallSharedMemory) {
  open();
  PushPullRequest request = push_of({0});
  request.offsets = {0};
  request.segment = 77;
  EXPECT_FAILS(push_pull(request, 0), InvalidArgument, "never shared");
  if (GetParam() != net::Transport::kShm) return;
  request.segment = connection->channel().share(net::Segment::create("small", 4096));
  EXPECT_FAILS(push_pull(request, 0), Corrupt, "shared memory that holds 4096");
  request.segment = connection->channel().share(net::Segment::create("large", 1u << 20));
  EXPECT_EQ(push_pull(request, 0).newest, 1u);
  request.info.step = 1;
  for (const std::uint64_t offset :
       {~std::uint64_t{0} - 3, std::uint64_t{1} << 62, (std::uint64_t{1} << 20) - 4, std::uint64_t{2}}) {
    request.offsets = {offset};
    EXPECT_FAILS(push_pull(request, 0), Corrupt, "shared memory");
  }
  request.offsets = {};
  EXPECT_FAILS(push_pull(request, 0), Corrupt, "0 offsets");
}

// ---- What only a primary sends.

struct HostileReplicaTest : HostileTest {
  HostileReplicaTest() {
    OpenRequest request = good_open();  // a second server is the primary of all, we back it up
    request.view.servers.push_back({.id = kPrimary, .slot = 1, .pid = 0, .address = {}, .since = 1});
    for (cluster::ShardPlace& place : request.view.shards) place = {kPrimary, request.server, true};
    ask<OpenReply>(kOpen, request);
    const Layout layout(request.job.tables, request.job.shards, {.max_chunk_bytes = request.job.max_chunk_bytes});
    floats = layout.chunks()[0].place.count;
  }

  template <typename Body>
  void send(std::uint16_t kind, const Body& body, std::size_t bytes) {
    const std::vector<std::byte> payload(bytes);
    const auto pending =
        connection->send({.kind = kind, .view = view, .body = net::encode_message(body), .payload = {payload}});
    connection->wait(pending, Deadline::in(10s), "it");
  }

  static ReplicateRequest update_of(std::uint32_t chunk, Step version = 1) {
    return {.from = kPrimary,
            .updates = {{.chunk = chunk, .version = version, .updates = version, .lr = 0.1, .scale = 1}}};
  }

  static constexpr MemberId kPrimary = 50;
  std::size_t floats = 0;
};

INSTANTIATE_TEST_SUITE_P(Over, HostileReplicaTest, ::testing::Values(net::Transport::kShm, net::Transport::kTcp),
                         [](const auto& test) { return to_string(test.param); });

TEST_P(HostileReplicaTest, RefusesInvalidUpdates) {
  const std::size_t bytes = floats * sizeof(float);
  EXPECT_FAILS(send(kReplicate, update_of(99), bytes), InvalidArgument, "no chunk 99");
  EXPECT_FAILS(send(kReplicate, update_of(0), 0), Corrupt, "bring 0");
  EXPECT_FAILS(send(kReplicate, update_of(0), bytes + 4), Corrupt, "updates for");
  send(kReplicate, update_of(0, 1), bytes);
  EXPECT_FAILS(send(kReplicate, update_of(0, 1), bytes), Corrupt, "does not follow");
  EXPECT_FAILS(send(kReplicate, update_of(0, 9), bytes), Corrupt, "does not follow");
  EXPECT_FAILS(send(kReplicate, update_of(0, 2), bytes + 3), Corrupt, "no floats");
  ReplicateRequest request = update_of(0, 2);
  request.from = 51;
  EXPECT_FAILS(send(kReplicate, request, bytes), InvalidArgument, "does not back up chunk 0 for member 51");
  request = update_of(0, 2);
  request.updates[0].lr = std::nan("");
  EXPECT_FAILS(send(kReplicate, request, bytes), InvalidArgument, "learning rate");
  EXPECT_FAILS(send(kReplicate, Nothing{}, bytes), Corrupt, "from");
  view = 2;
  EXPECT_FAILS(send(kReplicate, update_of(0, 2), bytes), StaleView, "view 2");
  view = 1;
  EXPECT_FAILS(push_pull(push_of({0}), bytes), InvalidArgument, "not the primary of chunk 0");
  send(kReplicate, update_of(0, 2), bytes);
}

TEST_P(HostileReplicaTest, RefusesInvalidChunks) {
  const std::size_t bytes = floats * sizeof(float);  // plain SGD: no state
  const InstallRequest good{.from = kPrimary, .header = {.chunk = 0, .assigned = true, .version = 5, .updates = 5}};
  const auto refused = [&](const auto& change, std::size_t size) {
    InstallRequest request = good;
    change(request);
    EXPECT_THROW(send(kInstall, request, size), Error);
  };
  refused([](InstallRequest&) {}, 0);
  refused([](InstallRequest&) {}, bytes - 4);
  refused([](InstallRequest&) {}, bytes + 4);
  refused([](InstallRequest&) {}, bytes + 1);
  refused([](InstallRequest& r) { r.header.chunk = 0xffffffff; }, bytes);
  refused([](InstallRequest& r) { r.from = 1; }, bytes);
  refused([](InstallRequest& r) { r.header.units = {{5, 0}}; }, bytes);
  refused([](InstallRequest& r) { r.header.units = {{5, 2}, {6, 1}}; }, bytes);
  EXPECT_FAILS(send(kRestore, good.header, bytes), InvalidArgument, "not the primary");
  send(kInstall, good, bytes);
  send(kReplicate, update_of(0, 6), bytes);
  const auto known = ask<SyncReply>(kSync, SyncRequest{kPrimary});
  EXPECT_EQ(known.chunks.size(), known.histories.size());
  EXPECT_FALSE(known.chunks.empty());
  EXPECT_TRUE(ask<SyncReply>(kSync, SyncRequest{12345}).chunks.empty());
  if (GetParam() == net::Transport::kShm) {
    EXPECT_FAILS(ask<ChunkHeader>(kFetch, FetchRequest{0}), InvalidArgument, "over the network");
  } else {
    EXPECT_FAILS(ask<ChunkHeader>(kFetch, FetchRequest{77}), InvalidArgument, "no chunk 77");
    EXPECT_EQ(ask<ChunkHeader>(kFetch, FetchRequest{0}).version, 6u);
  }
}

}  // namespace
}  // namespace trireme::ps
