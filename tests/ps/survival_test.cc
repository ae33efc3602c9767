// Servers and workers that die at any moment: nothing is lost, nothing counts twice, bit by bit.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <set>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/base/random.h"
#include "trireme/cluster/assignment.h"
#include "trireme/cluster/lease_book.h"
#include "trireme/ps/client.h"
#include "trireme/ps/replica.h"
#include "trireme/ps/server.h"

#include "tests/support/expect_fails.h"

namespace trireme::ps {
namespace {

const std::string kSecret = "the secret of these tests";
const std::vector<TableSpec> kTables{{"weight", 60'000}, {"bias", 11}, {"other", 20'000}};
constexpr Lane kLanes = 4;
constexpr auto kPatience = 30s;

Client::TableOptions options_of(const Consistency& consistency, Rule rule = Rule::kAdam) {
  return {.update = {.rule = rule}, .consistency = consistency, .placement = {.max_chunk_bytes = 16u << 10}};
}

ServerOptions server_options() {
  return {.service = {.door = {.name = "server", .secret = kSecret}}, .replica_timeout = 10s};
}

/// The gradient of one lane in one step: depends on the parameters, so that a step computed from mixed ones shows.
void lane_gradient(std::span<const float> parameters, std::span<float> gradient, Lane lane, Step step) {
  RandomStream random(mix_seed(lane, step));
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = static_cast<float>(random.uniform() - 0.5) + 0.01f * parameters[i];
  }
}

/// Fills the client's gradients with the sums over `lanes`.
void compute(Client& client, LaneRange lanes, Step step) {
  for (std::uint32_t table = 0; table < kTables.size(); ++table) {
    const auto parameters = client.parameters(table);
    std::vector<std::vector<float>> each(lanes.count, std::vector<float>(parameters.size()));
    std::vector<Partial> partials;
    for (Lane i = 0; i < lanes.count; ++i) {
      lane_gradient(parameters, each[i], lanes.first + i, 10 * step + table);
      partials.push_back({{lanes.first + i, 1}, each[i].data()});
    }
    tree_sum(kLanes, partials, 0, client.gradients(table));
  }
}

void set_initial(Client& client) {
  for (std::uint32_t table = 0; table < kTables.size(); ++table) {
    const auto values = client.parameters(table);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 100) * 0.01f;
  }
}

PushInfo info_of(LaneRange lanes, Step step) {
  return {.step = step, .lanes = lanes, .samples = 3.0 * lanes.count, .lr = 0.01};
}

std::vector<float> all_values(Client& client) {
  std::vector<float> result;
  for (std::uint32_t table = 0; table < kTables.size(); ++table) {
    const auto values = client.parameters(table);
    result.insert(result.end(), values.begin(), values.end());
  }
  return result;
}

/// The master's part: forms the next view when all workers that live have asked for it.
class Cluster {
 public:
  Cluster(std::uint32_t workers, std::vector<net::Address> servers, std::uint32_t replicas)
      : view_(cluster::first_view(workers, servers, replicas)), replicas_(replicas) {
    for (const auto& worker : view_.workers) live_.insert(worker.id);
    for (const auto& server : view_.servers) next_member_ = std::max(next_member_, server.id + 1);
  }

  cluster::ViewInfo view() {
    const std::lock_guard lock(mutex_);
    return view_;
  }

  void add_client(MemberId member, Client& client) {
    const std::lock_guard lock(mutex_);
    clients_[member] = &client;
  }

  /// A worker cannot go on in `view`; returns the next one.
  cluster::ViewInfo regroup(MemberId member, View view) {
    std::unique_lock lock(mutex_);
    if (view_.view > view) return view_;
    waiting_.insert(member);
    for (auto& [id, client] : clients_) {
      if (!waiting_.contains(id) && live_.contains(id)) client->interrupt("somebody is gone");
    }
    form_if_all_are_here();
    if (!formed_.wait_for(lock, kPatience, [&] { return view_.view > view; })) ADD_FAILURE() << "no next view";
    return view_;
  }

  /// A worker dies, or is done.
  void remove_worker(MemberId member, bool tell_others) {
    const std::lock_guard lock(mutex_);
    live_.erase(member);
    clients_.erase(member);
    if (tell_others) {
      for (auto& [id, client] : clients_) client->interrupt("a worker died");
    }
    form_if_all_are_here();
  }

  MemberId add_server(const net::Address& address) {
    const std::lock_guard lock(mutex_);
    coming_.push_back({.id = next_member_, .slot = 9, .pid = 0, .address = address, .since = 0});
    return next_member_++;
  }

  void remove_server(MemberId member) {
    const std::lock_guard lock(mutex_);
    gone_.insert(member);
  }

  void report(MemberId from, const ServerStatus& status) {
    const std::lock_guard lock(mutex_);
    apply_reports(view_.shards, from, status.replicas);
  }

  /// Makes everybody come to the next view.
  void disturb() {
    const std::lock_guard lock(mutex_);
    for (auto& [id, client] : clients_) client->interrupt("a new view is wanted");
  }

  std::function<void(Cluster&)> before_view;                    ///< with the lock: looks who is dead
  void erase_server(MemberId member) { gone_.insert(member); }  // for before_view

  std::atomic<Step> progress{0};  ///< a version that some worker has reached

 private:
  void form_if_all_are_here() {
    if (waiting_ != live_ || live_.empty()) return;
    if (before_view) before_view(*this);
    std::erase_if(view_.servers, [&](const auto& server) { return gone_.contains(server.id); });
    view_.servers.insert(view_.servers.end(), coming_.begin(), coming_.end());
    coming_.clear();
    std::vector<cluster::AssignableServer> servers;
    for (const auto& server : view_.servers) servers.push_back({.id = server.id});
    const auto count = static_cast<std::uint32_t>(view_.shards.size());
    cluster::Assignment assignment = cluster::assign_shards(view_.shards, servers, count, replicas_);
    EXPECT_TRUE(assignment.lost.empty()) << assignment.reason;
    view_.shards = std::move(assignment.shards);
    std::erase_if(view_.workers, [&](const auto& worker) { return !live_.contains(worker.id); });
    ++view_.view;
    waiting_.clear();
    formed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable formed_;
  cluster::ViewInfo view_;
  const std::uint32_t replicas_;
  MemberId next_member_ = 1;
  std::set<MemberId> live_;
  std::set<MemberId> waiting_;
  std::map<MemberId, Client*> clients_;
  std::set<MemberId> gone_;                  // servers that die: without them from the next view on
  std::vector<cluster::MemberInfo> coming_;  // and those that come
};

LaneRange lanes_of(const cluster::ViewInfo& view, MemberId member) {
  const auto dealt = deal_lanes(kLanes, static_cast<std::uint32_t>(view.workers.size()));
  const auto self = std::ranges::find(view.workers, member, &cluster::MemberInfo::id);
  return dealt.at(static_cast<std::size_t>(self - view.workers.begin()));
}

ClientOptions client_options(const cluster::ViewInfo& view, MemberId member, net::Transport transport) {
  return {.member = member,
          .view = view,
          .lanes = kLanes,
          .secret = kSecret,
          .transport = transport,
          .step_timeout = kPatience,
          .timeout = 30s};
}

/// Brings the worker's client into the view of `options`: a new one, or the one it has.
Client& attach(std::optional<Client>& slot, net::Loop& loop, Cluster& cluster, const ClientOptions& options,
               const Client::TableOptions& tables) {
  if (slot) {
    slot->enter(options.view, options.member);
    return *slot;
  }
  slot.emplace(loop, options);
  cluster.add_client(options.member, *slot);
  slot->open(kTables, tables);
  return *slot;
}

/// A worker of a bsp job that goes on whatever happens. Dies before `dies_at`, having pushed one table of that step.
std::vector<float> work(Cluster& cluster, MemberId member, net::Transport transport, Step steps,
                        Step dies_at = ~Step{0}) {
  net::Loop loop("worker");
  cluster::ViewInfo view = cluster.view();
  std::optional<Client> slot;
  Step version = 0;  // of the parameters here
  for (;;) {
    try {
      Client& client = attach(slot, loop, cluster, client_options(view, member, transport), options_of({}));
      if (version == 0) set_initial(client);
      if (view.workers.front().id == member) client.assign();
      const StepOutcome there = client.pull();
      if (there.whole()) {
        EXPECT_GE(there.newest, version);
        version = there.newest;
      } else {
        EXPECT_EQ(there.oldest, version) << "somebody is ahead of a chunk";
      }
      while (version < steps) {
        const LaneRange lanes = lanes_of(view, member);
        compute(client, lanes, version);
        if (version == dies_at) {
          const std::uint32_t table = 2;
          client.push({&table, 1}, info_of(lanes, version));
          std::this_thread::sleep_for(20ms);  // others have pushed by now, or not: both may be
          cluster.remove_worker(member, /*tell_others=*/true);
          return {};
        }
        for (const std::uint32_t table : {2u, 1u, 0u}) client.push(std::span(&table, 1), info_of(lanes, version));
        const StepOutcome outcome = client.finish();
        EXPECT_TRUE(outcome.whole());
        EXPECT_EQ(outcome.newest, version + 1);
        version = outcome.newest;
        cluster.progress.store(version);
      }
      cluster.remove_worker(member, /*tell_others=*/false);
      return all_values(client);
    } catch (const InvalidArgument& problem) {
      ADD_FAILURE() << problem.what();
      cluster.remove_worker(member, true);
      return {};
    } catch (const Error&) {
      view = cluster.regroup(member, view.view);
    }
  }
}

/// The same steps by one worker and one server, undisturbed.
std::vector<float> calm(Step steps) {
  const Server server(server_options());
  Cluster cluster(1, {server.address()}, 1);
  return work(cluster, 1, net::Transport::kShm, steps);
}

struct SurvivalTest : ::testing::TestWithParam<net::Transport> {};

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

TEST_P(SurvivalTest, AWorkerDiesBetweenItsPushes) {
  constexpr Step kSteps = 8;
  const std::vector<float> expected = calm(kSteps);
  for (const std::uint32_t replicas : {1u, 2u}) {
    const Server one(server_options());
    const Server two(server_options());
    Cluster cluster(3, {one.address(), two.address()}, replicas);
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

// ---- A server as a process that kills itself.

/// Threads that were joined may take a moment to go; a process that forks must have none.
void await_single_thread() {
#if !defined(__SANITIZE_THREAD__)  // it has a thread of its own
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
  };
  for (const Deadline patience = Deadline::in(5s); threads() > 1 && !patience.passed();) {
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(threads(), 1) << "somebody leaked a thread";
#endif
}

struct ServerProcess {
  pid_t pid = 0;
  net::Address address;

  /// Dies when it passes `point` for the `count`th time; 0 = never. Before this process has threads.
  explicit ServerProcess(CrashPoint point, int count) {
    await_single_thread();
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("pipe");
    pid = ::fork();
    if (pid == 0) {
      std::atomic<int> left = count;
      ServerOptions options = server_options();
      options.on_point = [&](CrashPoint at) {
        if (at == point && count > 0 && --left == 0) ::kill(::getpid(), SIGKILL);
      };
      const Server server(options);
      const std::string text = net::encode_body(server.address());
      if (::write(ends[1], text.data(), text.size()) < 0) ::_exit(1);
      for (;;) ::pause();
    }
    ::close(ends[1]);
    char buffer[1024];
    const auto got = ::read(ends[0], buffer, sizeof(buffer));
    ::close(ends[0]);
    if (got <= 0) throw std::runtime_error("a server process died at once");
    address = net::decode_body<net::Address>(as_bytes(std::string_view(buffer, static_cast<std::size_t>(got))));
  }
  ~ServerProcess() {
    if (pid == 0) return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  bool dead() {
    if (pid == 0 || ::waitpid(pid, nullptr, WNOHANG) != pid) return false;
    pid = 0;
    return true;
  }
};

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
      for (const Deadline patience = Deadline::in(5s); !died && !patience.passed();) {
        died = doomed.dead();
        if (!died) std::this_thread::sleep_for(1ms);
      }
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

    net::Loop loop("reader");  // every chunk saw every update once
    const cluster::ViewInfo view = cluster.view();
    ClientOptions options = client_options(view, view.workers.front().id, net::Transport::kTcp);
    options.view.view += 1;
    std::erase_if(options.view.servers, [](const auto& server) { return server.id == 3; });
    for (cluster::ShardPlace& place : options.view.shards) place = {.primary = 4, .backup = 0, .in_sync = false};
    Client reader(loop, options);
    reader.open(kTables, options_of({}));
    const JobImage image = reader.fetch();
    EXPECT_EQ(image.oldest, kSteps);
    EXPECT_EQ(image.newest, kSteps);
    EXPECT_EQ(image.updates, kSteps);
  }
}

// ---- Asynchronous workers: each unit adds a whole number, so the sum is exact in any order.

/// Units are leased; whoever dies leaves its units to the others.
class Leases {
 public:
  explicit Leases(std::uint64_t units) : book_({.total = units, .workers = 3}) {}

  /// Nothing if others are at work on the last units: ask again, unless it is over.
  std::optional<std::uint64_t> next(MemberId member) {
    const std::lock_guard lock(mutex_);
    auto& have = have_[member];
    if (have.count == 0) have = book_.next(member);
    return have.count > 0 ? std::optional(have.first) : std::nullopt;
  }
  bool over() {
    const std::lock_guard lock(mutex_);
    return book_.over();
  }
  void finish(MemberId member) {
    const std::lock_guard lock(mutex_);
    auto& have = have_[member];
    book_.finish({.first = have.first, .count = 1});
    ++have.first;
    --have.count;
  }
  void give_back(MemberId member) {
    const std::lock_guard lock(mutex_);
    book_.give_back(member);
  }
  std::uint64_t finished() {
    const std::lock_guard lock(mutex_);
    return book_.finished();
  }

 private:
  std::mutex mutex_;
  cluster::LeaseBook book_;
  std::map<MemberId, cluster::UnitRange> have_;
};

void work_async(Cluster& cluster, Leases& leases, MemberId member, const Consistency& consistency,
                net::Transport transport, std::uint64_t dies_after = ~std::uint64_t{0}) {
  net::Loop loop("worker");
  cluster::ViewInfo view = cluster.view();
  std::optional<Client> slot;
  Step done = 0;
  std::optional<std::uint64_t> unit;
  for (;;) {
    try {
      Client& client =
          attach(slot, loop, cluster, client_options(view, member, transport), options_of(consistency, Rule::kSgd));
      if (view.workers.front().id == member) client.assign();
      client.pull();
      for (;;) {
        if (!unit) unit = leases.next(member);
        if (!unit && !leases.over()) {
          client.pull();  // throws if everybody is to come to the next view
          continue;
        }
        if (!unit) {
          client.leave();
          return cluster.remove_worker(member, /*tell_others=*/false);
        }
        std::ranges::fill(client.all_gradients(), static_cast<float>(*unit % 7 + 1));
        const PushInfo info{.step = done, .unit = *unit, .lanes = {0, 1}, .samples = 1, .lr = 1};
        const std::uint32_t first = 2;
        client.push({&first, 1}, info);
        if (done == dies_after) {
          client.finish();
          leases.give_back(member);
          return cluster.remove_worker(member, /*tell_others=*/true);
        }
        const std::uint32_t rest[] = {0, 1};
        client.push(rest, info);
        client.finish();
        leases.finish(member);
        unit.reset();
        ++done;
      }
    } catch (const InvalidArgument& problem) {
      ADD_FAILURE() << problem.what();
      return cluster.remove_worker(member, true);
    } catch (const Error&) {
      view = cluster.regroup(member, view.view);
    }
  }
}

double sum_of_units(std::uint64_t units) {
  double sum = 0;
  for (std::uint64_t unit = 0; unit < units; ++unit) sum += static_cast<double>(unit % 7 + 1);
  return sum;
}

/// What the primaries hold after `units` units.
void expect_exact(const cluster::ViewInfo& last, std::uint64_t units, const Consistency& consistency) {
  net::Loop loop("reader");
  ClientOptions options = client_options(last, last.workers.front().id, net::Transport::kTcp);
  Client reader(loop, options);
  reader.open(kTables, options_of(consistency, Rule::kSgd));
  const JobImage image = reader.fetch();
  EXPECT_EQ(image.oldest, units) << "a unit is missing";
  EXPECT_EQ(image.newest, units) << "a unit was applied twice";
  for (const TableImage& table : image.tables) {
    for (const float value : table.parameters) ASSERT_EQ(value, -static_cast<float>(sum_of_units(units)));
  }
}

TEST_P(SurvivalTest, AsynchronousUnitsCountOnceWhoeverDies) {
  constexpr std::uint64_t kUnits = 600;
  for (const char* mode : {"asp", "ssp:2"}) {
    const Consistency consistency = parse_consistency(mode);
    auto one = std::make_unique<Server>(server_options());
    const Server two(server_options());
    Cluster cluster(3, {one->address(), two.address()}, 2);
    const cluster::ViewInfo first = cluster.view();
    Leases leases(kUnits);
    std::thread a([&] { work_async(cluster, leases, 1, consistency, GetParam()); });
    std::thread b([&] { work_async(cluster, leases, 2, consistency, GetParam(), /*dies_after=*/10); });
    std::thread c([&] { work_async(cluster, leases, 3, consistency, GetParam()); });
    for (const Deadline patience = Deadline::in(kPatience); leases.finished() < 60 && !patience.passed();) {
      std::this_thread::sleep_for(1ms);
    }
    cluster.remove_server(first.servers[0].id);
    one.reset();
    a.join();
    b.join();
    c.join();
    expect_exact(cluster.view(), kUnits, consistency);
  }
}

TEST_P(SurvivalTest, ANewServerIsBuiltUnderLoadTakesItsShareAndThenAll) {
  const Consistency asp = parse_consistency("asp");
  auto one = std::make_unique<Server>(server_options());
  auto two = std::make_unique<Server>(server_options());
  auto three = std::make_unique<Server>(server_options());
  Cluster cluster(2, {one->address(), two->address()}, 2);
  const cluster::ViewInfo first = cluster.view();
  constexpr std::uint64_t kUnits = 4000;
  Leases leases(kUnits);
  std::thread a([&] { work_async(cluster, leases, 1, asp, GetParam()); });
  std::thread b([&] { work_async(cluster, leases, 2, asp, GetParam()); });
  const auto wait_for = [&](const std::string& what, const auto& condition) {
    for (const Deadline patience = Deadline::in(kPatience); !condition();) {
      ASSERT_FALSE(patience.passed()) << what;
      std::this_thread::sleep_for(1ms);
    }
  };
  const auto next_view = [&] {
    const View now = cluster.view().view;
    cluster.disturb();
    wait_for("the next view", [&] { return cluster.view().view > now; });
  };
  const auto all_in_sync = [&](const std::vector<std::pair<MemberId, Server*>>& servers) {
    wait_for("copies in sync", [&] {
      for (const auto& [id, server] : servers) {
        if (server->status().view == cluster.view().view) cluster.report(id, server->status());
      }
      const auto now = cluster.view();
      return std::ranges::all_of(now.shards, [](const auto& place) { return place.in_sync; });
    });
  };
  wait_for("some work", [&] { return leases.finished() > 50; });
  const MemberId newcomer = cluster.add_server(three->address());
  next_view();
  all_in_sync({{first.servers[0].id, one.get()}, {first.servers[1].id, two.get()}});
  next_view();  // roles change
  const auto after = cluster.view();
  EXPECT_GT(std::ranges::count(after.shards, newcomer, &cluster::ShardPlace::primary), 1);
  all_in_sync({{first.servers[0].id, one.get()}, {first.servers[1].id, two.get()}, {newcomer, three.get()}});
  const std::uint64_t so_far = leases.finished();
  EXPECT_LT(so_far, kUnits) << "it was to be under load";
  cluster.remove_server(first.servers[0].id);
  one.reset();
  wait_for("the view without it", [&] { return cluster.view().view > after.view; });
  all_in_sync({{first.servers[1].id, two.get()}, {newcomer, three.get()}});
  cluster.remove_server(first.servers[1].id);
  two.reset();
  a.join();
  b.join();
  const auto last = cluster.view();
  for (const auto& place : last.shards) EXPECT_EQ(place.primary, newcomer);
  expect_exact(last, kUnits, asp);
}

TEST_P(SurvivalTest, ACopyBuiltUnderLoadEqualsItsOriginal) {
  // Adam, so that the state counts too; bsp, so that the load can be stopped at a step.
  const Server one(server_options());
  const Server two(server_options());
  Cluster cluster(2, {one.address()}, 2);
  const MemberId original = cluster.view().servers[0].id;
  constexpr Step kSteps = 100;
  std::thread a([&] { work(cluster, 1, GetParam(), kSteps); });
  std::thread b([&] { work(cluster, 2, GetParam(), kSteps); });
  for (const Deadline patience = Deadline::in(kPatience); cluster.progress.load() < 3 && !patience.passed();) {
    std::this_thread::sleep_for(1ms);
  }
  cluster.add_server(two.address());
  cluster.disturb();
  a.join();
  b.join();
  for (const Deadline patience = Deadline::in(kPatience); !patience.passed();) {
    cluster.report(original, one.status());
    if (std::ranges::all_of(cluster.view().shards, [](const auto& place) { return place.in_sync; })) break;
    std::this_thread::sleep_for(1ms);
  }
  cluster::ViewInfo view = cluster.view();
  ASSERT_GT(view.view, 1u) << "the steps were over before the copy was wanted";
  // The places as the servers know them: they were told before the copies were in sync.
  net::Loop loop("reader");
  std::map<MemberId, std::shared_ptr<net::Connection>> connections;
  for (const auto& server : view.servers) {
    connections[server.id] =
        net::Connection::open(loop, server.address, {.secret = kSecret, .transport = net::Transport::kTcp});
  }
  const std::uint32_t shards = useful_shards(kTables, static_cast<std::uint32_t>(view.shards.size()), 1);
  const Layout layout(kTables, shards, {.max_chunk_bytes = 16u << 10});
  for (std::uint32_t chunk = 0; chunk < layout.chunks().size(); ++chunk) {
    const auto& place = view.shards[layout.chunks()[chunk].place.shard];
    ASSERT_TRUE(place.in_sync);
    const auto fetch = [&](MemberId server) {
      auto& connection = *connections.at(server);
      return connection.wait(
          connection.send({.kind = kFetch, .view = view.view, .body = net::encode_body(FetchRequest{chunk})}),
          Deadline::in(10s), "a chunk");
    };
    const auto primary = fetch(place.primary);
    const auto backup = fetch(place.backup);
    const auto header = net::decode_body<ChunkHeader>(primary.body_bytes());
    EXPECT_EQ(header, net::decode_body<ChunkHeader>(backup.body_bytes()));
    EXPECT_EQ(header.version, kSteps);
    EXPECT_TRUE(std::ranges::equal(primary.payload_bytes(), backup.payload_bytes())) << chunk;
  }
  for (auto& [id, connection] : connections) connection->close();
}

// ---- Checkpoints.

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

TEST(Survival, ABackupThatIsSilentIsReportedAndNobodyWaitsForEver) {
  ServerProcess silent(CrashPoint::kUpdated, 0);
  ServerOptions options = server_options();
  options.replica_timeout = 300ms;
  const Server server(options);
  net::Loop loop("client");
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
  const auto began = Deadline::Clock::now();
  EXPECT_FAILS(client.finish(), PeerLost, "backup", "did not answer", "next view");
  EXPECT_LT(seconds(Deadline::Clock::now() - began), 10.0);
  const ServerStatus status = server.status();
  ASSERT_FALSE(status.replicas.empty());
  EXPECT_THAT(status.replicas[0].failure, ::testing::HasSubstr("did not answer"));
}

}  // namespace
}  // namespace trireme::ps
