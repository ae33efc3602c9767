// A master takes over from one that died; a member finds it by itself.
#include <atomic>
#include <mutex>

#include <gtest/gtest.h>

#include "cluster/membership.h"
#include "master/master.h"
#include "tests/support/eventually.h"
#include "tests/support/secret.h"

namespace trireme::master {
namespace {

constexpr auto kAnswerWithin = 200ms;
constexpr auto kAsksEvery = 20ms;  // at least: how often a member without a master looks for one

/// A job of one worker, which is told nothing but where to ask for the master.
class Takeover : public ::testing::Test {
 protected:
  void start_master() {
    auto next = std::make_unique<Master>(
        MasterOptions{.service = {.listener = {.name = "master", .secret = kSecret}},
                      .shape = {.workers = 1, .servers = 0},
                      .log_entry = {.saved = saved_, .save = [this](const std::string& job) { saved_ = job; }}});
    const std::lock_guard lock(mutex_);
    address_ = next->address();
    master_ = std::move(next);
  }

  void end_master() {
    {
      const std::lock_guard lock(mutex_);
      address_.reset();
    }
    master_.reset();
  }

  cluster::MembershipOptions member_options() {
    return {.find_master =
                [this] {
                  const std::lock_guard lock(mutex_);
                  if (!address_) ++asked_in_vain_;
                  return address_;
                },
            .secret = kSecret,
            .heartbeat_every = 20ms,
            .master_hangs_after = kAnswerWithin};
  }

  /// Waits until the master has heard that its worker is at step `clock`.
  bool hears(Step clock) const {
    return eventually([&] { return master_->status().clocks == std::vector<Step>{clock}; });
  }

  std::string saved_;  // by whichever master lives
  std::mutex mutex_;
  std::optional<net::Address> address_;  // guarded by mutex_
  std::unique_ptr<Master> master_;
  net::EventLoop loop_{"members"};
  std::atomic<int> regroups_ = 0;
  std::atomic<int> asked_in_vain_ = 0;  // for the address of a master
};

TEST_F(Takeover, MembersWaitLongerThanAnAnswerForTheNextMaster) {
  start_master();
  cluster::Membership member(loop_, member_options(),
                             {.on_regroup = [this](View, cluster::Regroup, const std::string&) { ++regroups_; }});
  member.set_plan({.steps = 100, .steps_per_epoch = 100, .batch = 8, .elastic = true, .strategy = "allreduce"});
  member.report({.clock = 1});
  ASSERT_TRUE(hears(1));
  end_master();
  ASSERT_TRUE(eventually([&] { return asked_in_vain_.load() > kAnswerWithin / kAsksEvery * 2; }));
  start_master();
  member.report({.clock = 2});
  EXPECT_TRUE(hears(2)) << "it is still a member";
  EXPECT_EQ(master_->status().view, 1u);
  EXPECT_EQ(regroups_, 0);
}

}  // namespace
}  // namespace trireme::master
