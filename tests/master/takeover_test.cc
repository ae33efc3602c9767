// A master takes over from one that died; a member finds it by itself.
#include <atomic>
#include <mutex>

#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/membership.h"
#include "master/master.h"
#include "tests/support/eventually.h"
#include "tests/support/secret.h"

namespace trireme::master {
namespace {

constexpr auto kAnswerWithin = 2s;
constexpr auto kAsksEvery = 20ms;  // at least: how often a member without a master looks for one

/// A job of one worker, which is told nothing but where to ask for the master.
class Takeover : public ::testing::Test {
 protected:
  void start_master(
      std::uint16_t port = 0, std::function<bool()> leading = [] { return true; }) {
    auto next = std::make_unique<Master>(
        MasterOptions{.service = {.listener = {.name = "master", .port = port, .secret = kSecret}},
                      .shape = {.workers = 1, .servers = 0},
                      .log_entry = {.saved = saved(),
                                    .save = [this](const SavedText& changes) { save(changes); },
                                    .leading = std::move(leading)}});
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
                  ++asked_;
                  if (store_away_) throw IoError("the store is out of reach");
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

  SavedText saved() {
    const std::lock_guard lock(mutex_);
    return saved_;
  }

  /// What a store does that takes long at times.
  void save(const SavedText& changes) {
    ++saves_;
    EXPECT_TRUE(eventually([&] { return !store_stalls_; }));
    if (store_fails_) throw IoError("the store takes nothing");
    const std::lock_guard lock(mutex_);
    saved_.apply(changes);
  }

  std::mutex mutex_;
  SavedText saved_;                         // by whichever master lives; guarded by mutex_
  std::atomic<bool> store_stalls_ = false;  // whoever saves waits
  std::atomic<bool> store_fails_ = false;   // nothing can be saved
  std::atomic<bool> store_away_ = false;    // nobody can ask it for the master
  std::atomic<int> saves_ = 0;              // begun
  std::atomic<int> asked_ = 0;              // for the address of a master
  std::optional<net::Address> address_;     // guarded by mutex_
  std::unique_ptr<Master> master_;
  net::EventLoop loop_{"members"};
  std::atomic<int> regroups_ = 0;
  std::atomic<int> asked_in_vain_ = 0;  // while there was none
};

TEST_F(Takeover, SuccessorOfAMasterThatCouldNotSaveLearnsWhatIsFinished) {
  start_master();
  cluster::Membership member(loop_, member_options(), {});
  member.set_plan({.steps = 100, .steps_per_epoch = 100, .batch = 8, .lanes = 4, .leased = true, .elastic = true});
  store_fails_ = true;
  cluster::UnitRange range = member.lease({}).range;
  std::uint64_t finished = 0;
  for (int i = 0; i < 3; ++i) {
    finished += range.count;
    const cluster::LeaseReply reply = member.lease({.finished = {range}});
    EXPECT_EQ(reply.finished, finished);
    range = reply.range;
  }
  end_master();
  store_fails_ = false;
  start_master();
  const cluster::LeaseReply reply = member.lease({.held = {range}});
  EXPECT_EQ(reply.finished, finished);
  EXPECT_GE(reply.range.first, finished) << "nothing is leased again";
}

TEST_F(Takeover, StoreThatTakesLongDelaysNoHeartbeat) {
  start_master();
  cluster::Membership member(loop_, member_options(),
                             {.on_regroup = [this](View, cluster::Regroup, const std::string&) { ++regroups_; }});
  member.set_plan({.steps = 100, .steps_per_epoch = 100, .batch = 8, .elastic = true, .strategy = "allreduce"});
  const int asked = asked_;
  const int saves = saves_;
  store_stalls_ = true;
  auto asks = std::async(std::launch::async, [&] { member.request_stop("enough"); });
  ASSERT_TRUE(eventually([&] { return saves_ > saves; }));
  constexpr auto kBeats = static_cast<Step>(2 * kAnswerWithin / kAsksEvery);  // take longer than an answer may
  for (Step clock = 1; clock <= kBeats; ++clock) {
    member.report({.clock = clock});
    ASSERT_TRUE(hears(clock));
  }
  EXPECT_EQ(asks.wait_for(0s), std::future_status::timeout) << "what is asked for is saved before it is confirmed";
  EXPECT_EQ(asked_, asked) << "nobody has lost the master";
  store_stalls_ = false;
  asks.get();
  EXPECT_TRUE(parse_saved_job(saved()).stop);
  EXPECT_EQ(regroups_, 0);
}

TEST_F(Takeover, MasterIsFoundWhereItWasWhileTheStoreIsAway) {
  start_master();
  cluster::Membership member(loop_, member_options(),
                             {.on_regroup = [this](View, cluster::Regroup, const std::string&) { ++regroups_; }});
  member.set_plan({.steps = 100, .steps_per_epoch = 100, .batch = 8, .elastic = true, .strategy = "allreduce"});
  store_away_ = true;
  const std::uint16_t port = master_->address().port;
  end_master();  // with which the connection ends
  start_master(port);
  member.report({.clock = 1});
  EXPECT_TRUE(hears(1));
  EXPECT_EQ(regroups_, 0);
}

TEST_F(Takeover, MembersLeaveAMasterThatHasLostTouchWithTheStoreForTheOneThatLeads) {
  std::atomic<bool> first_leads = true;
  start_master(0, [&] { return first_leads.load(); });
  cluster::Membership member(loop_, member_options(),
                             {.on_regroup = [this](View, cluster::Regroup, const std::string&) { ++regroups_; }});
  member.set_plan({.steps = 100, .steps_per_epoch = 100, .batch = 8, .elastic = true, .strategy = "allreduce"});
  first_leads = false;
  const auto former = std::move(master_);  // does not know of the other, and answers as always
  start_master();
  member.report({.clock = 1});
  EXPECT_TRUE(hears(1));
  EXPECT_EQ(regroups_, 0);
}

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
