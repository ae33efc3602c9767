// A master whose etcd hangs, with the members of its job.
#include <atomic>

#include <gtest/gtest.h>

#include "cluster/master_finder.h"
#include "cluster/membership.h"
#include "master/master.h"
#include "store/store.h"
#include "tests/support/etcd_cluster.h"
#include "tests/support/eventually.h"
#include "tests/support/secret.h"

namespace trireme::master {
namespace {

constexpr auto kHangAfter = 3000ms;
constexpr auto kBeatEvery = 20ms;

/// A worker and a server, which count what they are told.
class EtcdOutage : public ::testing::Test {
 protected:
  MasterOptions master_options() {
    return {.service = {.listener = {.name = "master", .secret = kSecret}},
            .shape = {.workers = 1, .servers = 1},
            .hang_after = kHangAfter,
            .log_entry = {.save =
                              [this](const SavedText& changes) {
                                leadership_->commit({{"job", changes.job}});
                              },
                          .leading = [this] { return leadership_->leading(); }}};
  }

  std::unique_ptr<cluster::Membership> join(cluster::Role role) {
    const auto beats = [this, role] {
      ++beats_[static_cast<std::size_t>(role)];
      return cluster::ClockReport{};
    };
    return std::make_unique<cluster::Membership>(
        loop_,
        cluster::MembershipOptions{.role = role,
                                   .find_master = cluster::make_master_finder(etcd_.location("job")),
                                   .secret = kSecret,
                                   .heartbeat_every = kBeatEvery,
                                   .master_hangs_after = kHangAfter},
        cluster::Membership::Events{
            .on_abort = [this](const std::string&) { ++disturbed_; },
            .clocks = beats,
            .on_regroup = [this](View, cluster::Regroup, const std::string&) { ++disturbed_; }});
  }

  /// Waits until both have been heard of for longer than a member may be silent.
  bool outlasts_silence() {
    const auto enough = kHangAfter * 6 / 5 / kBeatEvery;
    const auto goals = std::array{beats_[0] + enough, beats_[1] + enough};
    return eventually([&] { return beats_[0] >= goals[0] && beats_[1] >= goals[1]; });
  }

  EtcdCluster etcd_;
  std::unique_ptr<store::Store> store_ = store::open_store({.location = etcd_.location("job"), .call_within = 1s});
  std::unique_ptr<store::Leadership> leadership_ = store_->campaign({.ttl = 3s});
  net::EventLoop loop_{"members"};
  std::array<std::atomic<std::int64_t>, 2> beats_ = {};  // heartbeats, by role
  std::atomic<int> disturbed_ = 0;                       // how often somebody was told to regroup, or to give up
};

TEST_F(EtcdOutage, NobodyIsExpelledAndTheViewStays) {
  const Master master(master_options());
  leadership_->commit({{cluster::kAddressKey, nlohmann::json(master.address()).dump()}});
  auto joining = std::async(std::launch::async, [&] { return join(cluster::Role::kServer); });
  const auto worker = join(cluster::Role::kWorker);
  const auto server = joining.get();
  worker->set_plan({.steps = 100, .steps_per_epoch = 100, .batch = 8, .elastic = true, .strategy = "ps:bsp"});

  etcd_.stop(0);
  auto saving = std::async(std::launch::async, [&] { worker->request_stop("is saved when etcd is back"); });
  ASSERT_TRUE(eventually([&] { return !leadership_->leading(); }));
  ASSERT_TRUE(outlasts_silence());
  EXPECT_EQ(master.status().view, 1u);
  saving.get();
  etcd_.resume(0);
  ASSERT_TRUE(eventually([&] { return leadership_->leading() || leadership_->over(); }));
  ASSERT_TRUE(outlasts_silence());
  EXPECT_EQ(disturbed_, 0);
  EXPECT_EQ(master.status().view, 1u);
}

}  // namespace
}  // namespace trireme::master
