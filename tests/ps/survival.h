#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "cluster/assignment.h"
#include "ps/client.h"
#include "ps/server.h"
#include "tests/support/eventually.h"
#include "tests/support/secret.h"

namespace trireme::ps {

// A job of servers and workers as threads, without a master: what tests of its survival have in common.

inline const std::vector<TableSpec> kTables{{"weight", 60'000}, {"bias", 11}, {"other", 20'000}};
inline constexpr Lane kLanes = 4;

inline Client::TableOptions options_of(const Consistency& consistency, optim::Rule rule = optim::Rule::kAdam) {
  return {.update = {.rule = rule}, .consistency = consistency, .placement = {.max_chunk_bytes = 16u << 10}};
}

inline ServerOptions server_options() {
  return {.service = {.listener = {.name = "server", .secret = kSecret}}, .replica_timeout = 10s};
}

/// The gradient of one lane in one step: depends on the parameters, so that a step computed from mixed ones shows.
inline void lane_gradient(std::span<const float> parameters, std::span<float> gradient, Lane lane, Step step) {
  RandomStream random(mix_seed(lane, step));
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = static_cast<float>(random.uniform() - 0.5) + 0.01f * parameters[i];
  }
}

/// Fills the client's gradients with the sums over `lanes`.
inline void compute(Client& client, LaneRange lanes, Step step) {
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

inline void set_initial(Client& client) {
  for (std::uint32_t table = 0; table < kTables.size(); ++table) {
    const auto values = client.parameters(table);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 100) * 0.01f;
  }
}

inline StepInfo info_of(LaneRange lanes, Step step) {
  return {.step = step, .lanes = lanes, .samples = 3.0 * lanes.count, .lr = 0.01};
}

inline std::vector<float> all_values(Client& client) {
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
  Cluster(std::uint32_t workers, std::vector<net::Address> servers, std::uint32_t links)
      : view_(cluster::first_view(workers, servers, links)), links_(links) {
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

  std::atomic<Step> progress{0};         ///< a version that some worker has reached
  std::atomic<Step> pause_at{~Step{0}};  ///< workers wait before this step: what a test does comes before their end

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
    cluster::Assignment assignment = cluster::assign_shards(view_.shards, servers, count, links_);
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
  const std::uint32_t links_;
  MemberId next_member_ = 1;
  std::set<MemberId> live_;
  std::set<MemberId> waiting_;
  std::map<MemberId, Client*> clients_;
  std::set<MemberId> gone_;                  // servers that die: without them from the next view on
  std::vector<cluster::MemberInfo> coming_;  // and those that come
};

inline LaneRange lanes_of(const cluster::ViewInfo& view, MemberId member) {
  const auto dealt = deal_lanes(kLanes, static_cast<std::uint32_t>(view.workers.size()));
  const auto self = std::ranges::find(view.workers, member, &cluster::MemberInfo::id);
  return dealt.at(static_cast<std::size_t>(self - view.workers.begin()));
}

inline ClientOptions client_options(const cluster::ViewInfo& view, MemberId member, net::Transport transport) {
  return {.member = member,
          .view = view,
          .lanes = kLanes,
          .secret = kSecret,
          .transport = transport,
          .step_timeout = kPatience,
          .timeout = 30s};
}

/// Brings the worker's client into the view of `options`: a new one, or the one it has.
inline Client& attach(std::optional<Client>& slot, net::EventLoop& loop, Cluster& cluster, const ClientOptions& options,
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
inline std::vector<float> work(Cluster& cluster, MemberId member, net::Transport transport, Step steps,
                               Step dies_at = ~Step{0}) {
  net::EventLoop loop("worker");
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
        while (version >= cluster.pause_at.load()) std::this_thread::yield();
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
inline std::vector<float> calm(Step steps) {
  const Server server(server_options());
  Cluster cluster(1, {server.address()}, 1);
  return work(cluster, 1, net::Transport::kShm, steps);
}

/// Instantiated in survival_test.cc, for all files.
struct SurvivalTest : ::testing::TestWithParam<net::Transport> {};

}  // namespace trireme::ps
