// Servers and clients over each transport against a serial reference.
#include "ps/server.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/error.h"
#include "base/random.h"
#include "optim/update_rule.h"
#include "ps/client.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"
#include "tests/support/secret.h"

namespace trireme::ps {
namespace {

const std::vector<TableSpec> kServedTables{{"weight", 50'000}, {"bias", 11}};
const Client::TableOptions kAdam{.update = {.rule = optim::Rule::kAdam}, .placement = {.max_chunk_bytes = 16u << 10}};

struct Job {
  explicit Job(std::uint32_t servers_wanted, std::uint32_t workers_wanted = 2, std::size_t compute_threads = 0)
      : workers(workers_wanted) {
    for (Rank rank = 0; rank < servers_wanted; ++rank) {
      servers.push_back(
          std::make_unique<Server>(ServerOptions{.service = {.listener = {.name = "server", .secret = kSecret}},
                                                 .rank = rank,
                                                 .compute_threads = compute_threads}));
    }
  }

  ClientOptions client_options(Rank worker, net::Transport transport) const {
    std::vector<net::Address> addresses;
    for (const auto& server : servers) addresses.push_back(server->address());
    return {.member = worker + 1,
            .view = cluster::first_view(workers, addresses),
            .lanes = workers,
            .secret = kSecret,
            .transport = transport,
            .timeout = 20s};
  }

  std::uint32_t workers;
  std::vector<std::unique_ptr<Server>> servers;
};

float initial(std::size_t i) { return static_cast<float>(i % 100) * 0.01f; }

/// The sum of `worker`'s gradients over its samples in `step`.
void fill_gradient(std::span<float> gradient, Rank worker, Step step) {
  RandomStream random(mix_seed(worker, step));
  for (float& value : gradient) value = static_cast<float>(random.uniform() - 0.5);
}

/// What one worker does in bsp; all its parameters at the end.
std::vector<float> work(net::EventLoop& loop, const ClientOptions& options, Step steps) {
  Client client(loop, options);
  client.open(kServedTables, kAdam);
  const auto worker = static_cast<Rank>(options.member - 1);
  if (worker == 0) {
    for (std::uint32_t table = 0; table < kServedTables.size(); ++table) {
      const auto values = client.parameters(table);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = initial(i);
    }
    client.assign();
  }
  client.pull();
  EXPECT_EQ(client.parameters(0)[5], initial(5));
  for (Step step = 0; step < steps; ++step) {
    for (std::uint32_t table = 0; table < kServedTables.size(); ++table) {
      fill_gradient(client.gradients(table), worker, 10 * step + table);
    }
    const StepInfo info{.step = step, .lanes = {worker, 1}, .samples = 4.0 + worker, .lr = 0.01};
    for (const std::uint32_t table : {1u, 0u}) client.push(std::span(&table, 1), info);
    const StepOutcome outcome = client.finish();
    EXPECT_EQ(outcome.oldest, step + 1);
    EXPECT_EQ(outcome.newest, step + 1);
    EXPECT_TRUE(outcome.counted);
    EXPECT_FALSE(outcome.stop);
  }
  std::vector<float> result;
  for (std::uint32_t table = 0; table < kServedTables.size(); ++table) {
    const auto values = client.parameters(table);
    result.insert(result.end(), values.begin(), values.end());
  }
  client.leave();
  return result;
}

/// The same by one process without servers.
std::vector<float> reference(Step steps) {
  std::vector<float> result;
  for (std::uint32_t table = 0; table < kServedTables.size(); ++table) {
    const std::size_t size = kServedTables[table].elements;
    std::vector<float> values(size), state(2 * size), gradient(size), other(size);
    for (std::size_t i = 0; i < size; ++i) values[i] = initial(i);
    for (Step step = 0; step < steps; ++step) {
      fill_gradient(gradient, 0, 10 * step + table);
      fill_gradient(other, 1, 10 * step + table);
      for (std::size_t i = 0; i < size; ++i) gradient[i] += other[i];
      optim::apply_update(kAdam.update, {.step = step + 1, .lr = 0.01, .gradient_scale = 1.0 / 9.0}, values,
                          optim::state_at({.rule = optim::Rule::kAdam}, state, size), gradient);
    }
    result.insert(result.end(), values.begin(), values.end());
  }
  return result;
}

struct ServerTest : ::testing::TestWithParam<std::tuple<net::Transport, std::uint32_t>> {};

INSTANTIATE_TEST_SUITE_P(
    Over, ServerTest,
    ::testing::Combine(::testing::Values(net::Transport::kShm, net::Transport::kTcp, net::Transport::kTls),
                       ::testing::Values(1u, 2u)),
    [](const auto& test) { return to_string(std::get<0>(test.param)) + std::to_string(std::get<1>(test.param)); });

TEST(WaitingClient, TellsForWhatAndWhichServer) {
  Job job(1);
  net::EventLoop loop("clients");
  WaitBoard board;
  Client first(loop, job.client_options(0, net::Transport::kTcp));
  first.open(kServedTables, kAdam);
  std::jthread second([&] {
    ClientOptions options = job.client_options(1, net::Transport::kTcp);
    options.waits = &board;
    Client client(loop, options);
    client.open(kServedTables, kAdam);
    client.pull();
    client.leave();
  });
  std::optional<AwaitedWork> work;
  EXPECT_TRUE(eventually([&] { return (work = board.longest()) && work->what == "a push or pull"; }));
  EXPECT_EQ(work->servers, std::vector<Rank>{0});
  first.assign();
  second.join();
  first.leave();
  EXPECT_FALSE(board.longest());
}

TEST_P(ServerTest, TwoWorkersGetTheBitsOfTheSerialReference) {
  const auto [transport, servers] = GetParam();
  const Job job(servers, 2, /*compute_threads=*/servers == 2 ? 2 : 0);
  net::EventLoop loop("client");
  std::vector<float> second;
  std::thread other([&, options = job.client_options(1, transport)] { second = work(loop, options, 20); });
  const std::vector<float> first = work(loop, job.client_options(0, transport), 20);
  other.join();
  EXPECT_EQ(first, second);
  EXPECT_EQ(first, reference(20));
}

TEST_P(ServerTest, StatisticsAddUp) {
  const auto [transport, servers] = GetParam();
  const Job job(servers, 1);
  net::EventLoop loop("client");
  Client client(loop, job.client_options(0, transport));
  client.open(kServedTables, kAdam);
  std::uint64_t parameters = 0;
  std::uint64_t state = 0;
  for (const ServerStats& stats : client.server_stats()) {
    parameters += stats.parameter_bytes;
    state += stats.state_bytes;
    EXPECT_GT(stats.resident_bytes, stats.parameter_bytes);
    EXPECT_GT(stats.chunks, 0u);
  }
  EXPECT_GE(parameters, 50'011 * sizeof(float));
  EXPECT_EQ(state, 2 * 50'011 * sizeof(float));
  EXPECT_THAT(client.transports(), ::testing::HasSubstr("server 0 (" + to_string(transport)));
}

TEST(Server, ARequestOfAnotherViewIsRefused) {
  const Job job(1, 1);
  net::EventLoop loop("client");
  auto options = job.client_options(0, net::Transport::kTcp);
  const MemberId server = options.view.servers[0].id;
  options.view.view = 3;
  job.servers[0]->enter(options.view, server);
  options.view.view = 2;
  EXPECT_FAILS(job.servers[0]->enter(options.view, server), StaleView, "view 3", "view 2");
  Client stale(loop, options);
  EXPECT_FAILS(stale.open(kServedTables, kAdam), StaleView, "view 3", "view 2", "rejoin");
  options.view.view = 3;
  Client current(loop, options);
  current.open(kServedTables, kAdam);
  current.assign();
  current.pull();
  const float before = current.parameters(0)[0];
  options.view.view = 4;
  job.servers[0]->enter(options.view, server);
  job.servers[0]->enter(options.view, server);
  EXPECT_FAILS(current.pull(), StaleView, "view 4");
  const std::uint32_t tables[] = {0, 1};
  current.push(tables, {.step = 0, .lanes = {0, 1}, .samples = 1, .lr = 0.1});
  EXPECT_FAILS(current.finish(), StaleView, "view 4");
  EXPECT_EQ(current.parameters(0)[0], before);
  current.enter(options.view, options.member);
  EXPECT_EQ(current.pull().newest, 0u);
  options.view.workers[0].id = 77;
  EXPECT_FAILS(job.servers[0]->enter(options.view, server), InvalidArgument, "other members");
  options.view.view = 5;
  EXPECT_FAILS(job.servers[0]->enter(options.view, 12345), InvalidArgument, "member 12345");
}

TEST(Server, ReplacedShardIsEmptyAndOthersAreKept) {
  const Job job(1, 1);
  net::EventLoop loop("client");
  auto options = job.client_options(0, net::Transport::kTcp);
  Client client(loop, options);
  client.open(kServedTables, kAdam);
  EXPECT_EQ(client.load_status().assigned, 0u);
  client.assign();
  EXPECT_TRUE(client.load_status().complete());
  options.view.view = 2;
  client.enter(options.view, options.member);
  EXPECT_TRUE(client.load_status().complete());
  options.view.view = 3;
  options.view.shards[0].born = 3;
  client.enter(options.view, options.member);
  const LoadStatus load_status = client.load_status();
  EXPECT_GT(load_status.assigned, 0u);
  EXPECT_LT(load_status.assigned, load_status.chunks);
  TablesState state = client.empty_state();
  state.newest = 5;
  client.restore(state);
  EXPECT_TRUE(client.load_status().complete());
  EXPECT_EQ(client.load_status().oldest, 5u);
  EXPECT_EQ(client.pull().newest, 5u);
}

TEST(Server, WorkersWithDifferentTablesAreRefusedWithTheDifference) {
  const Job job(1, 2);
  net::EventLoop loop("client");
  Client first(loop, job.client_options(0, net::Transport::kTcp));
  first.open(kServedTables, kAdam);
  const auto refused = [&](const std::vector<TableSpec>& tables, const Client::TableOptions& table_options,
                           const std::string& field, ClientOptions options) {
    Client other(loop, std::move(options));
    EXPECT_FAILS(other.open(tables, table_options), InvalidArgument, "'" + field + "'", "same flags");
  };
  const auto options = job.client_options(1, net::Transport::kTcp);
  refused({{"weight", 50'000}}, kAdam, "tables", options);
  auto sgd = kAdam;
  sgd.update.rule = optim::Rule::kSgd;
  refused(kServedTables, sgd, "update", options);
  auto asp = kAdam;
  asp.consistency.mode = Consistency::Mode::kAsp;
  refused(kServedTables, asp, "consistency", options);
  auto lanes = options;
  lanes.lanes = 8;
  refused(kServedTables, kAdam, "lanes", lanes);
  Client second(loop, options);
  EXPECT_NO_THROW(second.open(kServedTables, kAdam));
}

TEST(Server, AStopReachesEveryWorkerAfterTheSameStep) {
  const Job job(2, 2);
  net::EventLoop loop("client");
  const auto run = [&](Rank worker) {
    Client client(loop, job.client_options(worker, net::Transport::kAuto));
    client.open(kServedTables, kAdam);
    if (worker == 0) client.assign();
    client.pull();
    const std::uint32_t tables[] = {0, 1};
    for (Step step = 0;; ++step) {
      client.push(tables,
                  {.step = step, .lanes = {worker, 1}, .samples = 1, .lr = 0.01, .stop = worker == 1 && step == 7});
      if (client.finish().stop) return step;
    }
  };
  Step second = 0;
  std::thread other([&] { second = run(1); });
  EXPECT_EQ(run(0), 7u);
  other.join();
  EXPECT_EQ(second, 7u);
}

TEST(Server, InterruptEndsAWait) {
  const Job job(2, 2);
  net::EventLoop loop("client");
  for (const auto transport : {net::Transport::kShm, net::Transport::kTcp}) {
    Client client(loop, job.client_options(0, transport));
    client.open(kServedTables, kAdam);
    client.assign();
    const std::uint32_t tables[] = {0, 1};
    client.push(tables, {.step = 0, .lanes = {0, 1}, .samples = 1, .lr = 0.1});  // waits for worker 1
    std::thread other([&] { client.interrupt("the job failed"); });
    EXPECT_FAILS(client.finish(), PeerLost, "the job failed");
    other.join();
  }
}

/// Everything a server must survive: it lives while workers are killed at any moment.
TEST(Server, AKilledWorkerDoesNotHarmTheServer) {
  for (const auto transport : {net::Transport::kShm, net::Transport::kTcp, net::Transport::kTls}) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();  // before this process has threads
    if (child == 0) {
      net::Address address;
      char buffer[1024];
      const auto got = ::read(ends[0], buffer, sizeof(buffer));
      address = net::decode_message<net::Address>(as_bytes(std::string_view(buffer, static_cast<std::size_t>(got))));
      net::EventLoop loop("client");
      Client client(loop, {.member = 2,
                           .view = cluster::first_view(2, {address}),
                           .lanes = 2,
                           .secret = kSecret,
                           .transport = transport});
      client.open(kServedTables, kAdam);
      const std::uint32_t tables[] = {0, 1};
      for (Step step = 0;; ++step) {
        client.push(tables, {.step = step, .lanes = {1, 1}, .samples = 1, .lr = 0.01});
        client.finish();
      }
    }
    {
      const Job job(1, 2);
      const std::string address = net::encode_message(job.servers[0]->address());
      ASSERT_GT(::write(ends[1], address.data(), address.size()), 0);
      net::EventLoop loop("client");
      Client client(loop, job.client_options(0, transport));
      client.open(kServedTables, kAdam);
      client.assign();
      const std::uint32_t tables[] = {0, 1};
      Step step = 0;
      const auto push = [&] { client.push(tables, {.step = step++, .lanes = {0, 1}, .samples = 1, .lr = 0.01}); };
      while (step < 20) {
        push();
        client.finish();
      }
      push();
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      Client healer(loop, job.client_options(1, transport));  // what the owner of the job would do for it
      healer.open(kServedTables, kAdam);
      healer.leave();
      for (int i = 0; i < 5; ++i) {
        client.finish();
        push();
      }
      client.finish();
    }
    ::close(ends[0]);
    ::close(ends[1]);
  }
}

}  // namespace
}  // namespace trireme::ps
