// Asynchronous workers and their servers come, go and die. Each unit adds a whole number, so the sum is exact in any
// order.

#include <thread>

#include "master/lease_table.h"
#include "tests/ps/survival.h"
#include "tests/support/eventually.h"

namespace trireme::ps {
namespace {

/// Units are leased; whoever dies leaves its units to the others. The last ones are kept back until `release`: what is
/// to happen to workers and servers happens before their work ends.
class Leases {
 public:
  explicit Leases(std::uint64_t units) : kept_back_from_(units * 7 / 8), table_({.total = units, .workers = 3}) {}

  /// Nothing if others are at work on the last units: ask again, unless it is over.
  std::optional<std::uint64_t> next(MemberId member) {
    const std::lock_guard lock(mutex_);
    auto& have = have_[member];
    if (have.count == 0 && (released_ || table_.finished() < kept_back_from_)) have = table_.next(member);
    return have.count > 0 ? std::optional(have.first) : std::nullopt;
  }
  bool over() {
    const std::lock_guard lock(mutex_);
    return table_.over();
  }
  void finish(MemberId member) {
    const std::lock_guard lock(mutex_);
    auto& have = have_[member];
    table_.finish({.first = have.first, .count = 1});
    ++have.first;
    --have.count;
  }
  void give_back(MemberId member) {
    const std::lock_guard lock(mutex_);
    table_.give_back(member);
  }
  void release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
  }
  std::uint64_t finished() {
    const std::lock_guard lock(mutex_);
    return table_.finished();
  }

 private:
  const std::uint64_t kept_back_from_;
  std::mutex mutex_;
  bool released_ = false;
  master::LeaseTable table_;
  std::map<MemberId, cluster::UnitRange> have_;
};

void work_async(Cluster& cluster, Leases& leases, MemberId member, const Consistency& consistency,
                net::Transport transport, std::uint64_t dies_after = ~std::uint64_t{0}) {
  net::EventLoop loop("worker");
  cluster::ViewInfo view = cluster.view();
  std::optional<Client> slot;
  Step done = 0;
  std::optional<std::uint64_t> unit;
  for (;;) {
    try {
      Client& client = attach(slot, loop, cluster, client_options(view, member, transport),
                              options_of(consistency, optim::Rule::kSgd));
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
        const StepInfo info{.step = done, .unit = *unit, .lanes = {0, 1}, .samples = 1, .lr = 1};
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
  net::EventLoop loop("reader");
  ClientOptions options = client_options(last, last.workers.front().id, net::Transport::kTcp);
  Client reader(loop, options);
  reader.open(kTables, options_of(consistency, optim::Rule::kSgd));
  const TablesState state = reader.fetch();
  EXPECT_EQ(state.oldest, units) << "a unit is missing";
  EXPECT_EQ(state.newest, units) << "a unit was applied twice";
  for (const TableState& table : state.tables) {
    for (const float value : table.parameters) ASSERT_EQ(value, -static_cast<float>(sum_of_units(units)));
  }
}

TEST_P(SurvivalTest, AsynchronousUnitsCountOnceWhenWorkersAndServersDie) {
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
    EXPECT_TRUE(eventually([&] { return leases.finished() >= 60; }, kPatience));
    cluster.remove_server(first.servers[0].id);
    one.reset();
    leases.release();
    a.join();
    b.join();
    c.join();
    expect_exact(cluster.view(), kUnits, consistency);
  }
}

TEST_P(SurvivalTest, NewServerCatchesUpUnderLoadAndTakesOverAllShards) {
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
    ASSERT_TRUE(eventually(condition, kPatience)) << what;
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
      return std::ranges::all_of(now.shards,
                                 [](const auto& place) { return place.in_sync && place.being_built() == 0; });
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
  cluster.remove_server(first.servers[0].id);
  one.reset();
  wait_for("the view without it", [&] { return cluster.view().view > after.view; });
  all_in_sync({{first.servers[1].id, two.get()}, {newcomer, three.get()}});
  cluster.remove_server(first.servers[1].id);
  two.reset();
  leases.release();
  a.join();
  b.join();
  const auto last = cluster.view();
  for (const auto& place : last.shards) EXPECT_EQ(place.primary, newcomer);
  expect_exact(last, kUnits, asp);
}

}  // namespace
}  // namespace trireme::ps
