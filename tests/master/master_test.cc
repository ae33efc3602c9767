// A master and its members in one process.
#include "master/master.h"

#include <condition_variable>
#include <future>

#include "base/error.h"
#include "cluster/membership.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"
#include "tests/support/secret.h"

namespace trireme::master {
namespace {

using ::testing::HasSubstr;

MasterOptions master_options(std::uint32_t workers, std::uint32_t servers) {
  return {.service = {.listener = {.name = "master", .secret = kSecret}},
          .shape = {.workers = workers, .servers = servers},
          .hang_after = 10s,
          .gather_within = 20s};
}

/// Keeps what a member was told, and lets a test wait for it.
class Inbox {
 public:
  cluster::Membership::Events events() {
    return {.on_abort = [this](const std::string& reason) { change([&] { abort_ = reason; }); },
            .on_stop = [this] { change([&] { ++stops_; }); },
            .on_over = [this] { change([&] { over_ = true; }); },
            .on_row = [this](const MetricsRow& row) { change([&] { rows_.push_back(row); }); },
            .clocks = [this] { return std::lock_guard(mutex_), clocks_; }};
  }

  void set_clocks(const cluster::ClockReport& report) {
    change([&] { clocks_ = report; });
  }

  std::string wait_abort(std::chrono::milliseconds within = 10s) {
    return wait([&] { return !abort_.empty(); }, within), abort_;
  }
  int wait_stop() {
    return wait([&] { return stops_ > 0; }), stops_;
  }
  bool wait_over() {
    return wait([&] { return over_; }), over_;
  }
  std::vector<MetricsRow> wait_rows(std::size_t count) {
    return wait([&] { return rows_.size() >= count; }), rows_;
  }

 private:
  template <typename F>
  void change(const F& make_change) {
    const std::lock_guard lock(mutex_);
    make_change();
    changed_.notify_all();
  }
  template <typename F>
  void wait(const F& ready, std::chrono::milliseconds within = 10s) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, within, ready);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string abort_;
  int stops_ = 0;
  bool over_ = false;
  std::vector<MetricsRow> rows_;
  cluster::ClockReport clocks_;
};

struct Joined {
  Inbox inbox;
  std::unique_ptr<cluster::Membership> membership;
};

cluster::MembershipOptions member_options(const Master& master, cluster::Role role, Rank rank) {
  net::Address own;
  own.port = static_cast<std::uint16_t>(9000 + rank);
  return {.role = role,
          .slot = rank,
          .master = master.address(),
          .own_address = own,
          .secret = kSecret,
          .heartbeat_every = 20ms};
}

/// Two workers and a server around a master.
struct MasterTest : ::testing::Test {
  explicit MasterTest(const MasterOptions& options = master_options(2, 1)) : master(options) {
    std::vector<std::future<void>> joins;
    for (std::size_t i = 0; i < 3; ++i) {
      joins.push_back(std::async(std::launch::async, [this, i] {
        const auto [role, rank] =
            i < 2 ? std::pair(cluster::Role::kWorker, static_cast<Rank>(i)) : std::pair(cluster::Role::kServer, 0u);
        members[i].membership =
            std::make_unique<cluster::Membership>(loop, member_options(master, role, rank), members[i].inbox.events());
      }));
    }
    for (auto& join : joins) join.get();
  }

  cluster::Membership& worker(Rank rank) { return *members[rank].membership; }
  cluster::Membership& server() { return *members[2].membership; }

  net::EventLoop loop{"members"};
  Master master;
  std::array<Joined, 3> members;
};

TEST_F(MasterTest, AllMembersGetTheSameView) {
  for (const Joined& member : members) {
    EXPECT_EQ(member.membership->view().view, 1u);
    EXPECT_EQ(member.membership->view().workers.size(), 2u);
    ASSERT_EQ(member.membership->view().servers.size(), 1u);
    EXPECT_EQ(member.membership->view().servers[0].address.port, 9000);
    ASSERT_EQ(member.membership->view().workers.size(), 2u);
    EXPECT_EQ(member.membership->view().workers[1].address.port, 9001);
  }
  EXPECT_EQ(master.status().state, cluster::JobPhase::kRunning);
  EXPECT_FALSE(master.over());
}

TEST_F(MasterTest, RefusesADuplicateRankAndARankBeyondTheJob) {
  EXPECT_FAILS(cluster::Membership(loop, member_options(master, cluster::Role::kWorker, 1), {}), StaleView, "worker 1",
               "running");
  EXPECT_FAILS(cluster::Membership(loop, member_options(master, cluster::Role::kWorker, 2), {}), InvalidArgument,
               "worker 2", "2 workers");
}

TEST_F(MasterTest, WorkersMustAgreeOnThePlan) {
  const cluster::Plan plan{.steps = 10, .steps_per_epoch = 5, .batch = 4};
  worker(0).set_plan(plan);
  worker(1).set_plan(plan);
  cluster::Plan longer = plan;
  longer.steps = 11;
  EXPECT_FAILS(worker(1).set_plan(longer), InvalidArgument, "\"steps\":10", "\"steps\":11", "same flags");
  EXPECT_EQ(master.status().plan, plan);
}

TEST_F(MasterTest, ProgressIsSummedAndSentToTheChief) {
  worker(0).set_plan(
      {.steps = 10, .steps_per_epoch = 5, .batch = 100, .samples_per_epoch = 500, .lanes = 2, .log_every = 1});
  worker(0).take_rows_after(0);
  const cluster::RowPart part{.first = 0,
                              .last = 0,
                              .steps = 1,
                              .samples = 50,
                              .loss_sum = 50,
                              .metrics = {{.name = "accuracy", .sum = 25, .count = 50}}};
  worker(0).report({.clock = 1, .samples = 50, .rows = {part}});
  cluster::RowPart other = part;
  other.lane = 1;
  other.loss_sum = 150;
  worker(1).report({.clock = 1, .samples = 50, .rows = {other}});
  const auto rows = members[0].inbox.wait_rows(1);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].samples, 100u);
  EXPECT_DOUBLE_EQ(rows[0].loss, 2);
  EXPECT_DOUBLE_EQ(rows[0].metric("accuracy"), 0.5);
  EXPECT_TRUE(eventually([&] { return worker(1).rows_taken() == 1; })) << "its part can be forgotten";
}

TEST_F(MasterTest, ClocksComeFromTheServers) {
  worker(0).set_plan({.steps = 10, .steps_per_epoch = 5, .batch = 100, .log_every = 1});
  members[2].inbox.set_clocks({.clocks = {2, 1}, .spread_max = 3});
  EXPECT_TRUE(eventually([&] { return master.status().clocks[0] != 0; }));
  EXPECT_EQ(master.status().clocks, (std::vector<Step>{2, 1}));
  EXPECT_EQ(master.status().spread_max, 3u);
}

TEST_F(MasterTest, EveryUnitIsLeasedOnce) {
  worker(0).set_plan({.steps = 50, .steps_per_epoch = 50, .batch = 4, .lanes = 2, .leased = true});
  std::array<std::future<std::vector<int>>, 2> counts;
  for (Rank rank = 0; rank < 2; ++rank) {
    counts[rank] = std::async(std::launch::async, [this, rank] {
      std::vector<int> seen(100, 0);
      std::vector<cluster::UnitRange> finished;
      for (cluster::LeaseReply reply = worker(rank).lease({}); !reply.over;
           reply = worker(rank).lease({.finished = finished})) {
        finished.clear();
        if (reply.range.count == 0) continue;
        for (std::uint64_t i = 0; i < reply.range.count; ++i) ++seen[reply.range.first + i];
        finished.push_back(reply.range);
      }
      return seen;
    });
  }
  const auto first = counts[0].get();
  const auto second = counts[1].get();
  for (std::size_t unit = 0; unit < 100; ++unit) EXPECT_EQ(first[unit] + second[unit], 1) << unit;
  EXPECT_EQ(master.status().now.step, 50u) << "what is finished counts, whoever heard of it";
}

TEST_F(MasterTest, StopReachesEveryMemberOnce) {
  worker(0).set_plan({.steps = 10, .steps_per_epoch = 5, .batch = 100, .leased = true});
  worker(1).request_stop("the target is met");
  for (Joined& member : members) EXPECT_EQ(member.inbox.wait_stop(), 1);
  EXPECT_TRUE(worker(0).lease({}).over);
  EXPECT_THAT(master.status().reason, HasSubstr("the target is met"));
}

TEST_F(MasterTest, ResultIsKeptAndMembersLearnTheEnd) {
  worker(0).post_result({{"test_accuracy", 0.9}});
  EXPECT_EQ(master.status().result.at("test_accuracy"), 0.9);
  worker(0).leave();
  EXPECT_FALSE(master.over());
  members[0].membership.reset();
  worker(1).leave();
  EXPECT_TRUE(master.over());
  EXPECT_EQ(master.status().state, cluster::JobPhase::kFinished);
  EXPECT_TRUE(members[2].inbox.wait_over());
  members[1].membership.reset();
  server().leave();
  EXPECT_EQ(master.status().state, cluster::JobPhase::kFinished);
}

TEST_F(MasterTest, ADeathAbortsTheOthersAtOnce) {
  members[1].membership.reset();  // its connection ends without a goodbye
  EXPECT_THAT(members[0].inbox.wait_abort(), HasSubstr("worker 1 (pid"));
  EXPECT_THAT(members[2].inbox.wait_abort(), HasSubstr("died"));  // not "hangs", which takes a while to tell
  EXPECT_TRUE(master.over());
  EXPECT_EQ(master.status().state, cluster::JobPhase::kFailed);
}

TEST_F(MasterTest, AFailureAbortsTheOthersWithItsReason) {
  worker(1).leave("the loss is NaN in step 12");
  EXPECT_THAT(members[0].inbox.wait_abort(), HasSubstr("worker 1 failed: the loss is NaN in step 12"));
}

TEST_F(MasterTest, ClientWithTheSecretMayReadTheStatus) {
  const auto observer = net::Connection::open(loop, master.address(), {.secret = kSecret});
  const auto status =
      observer->call<cluster::JobStatus>(cluster::kStatus, 0, cluster::Done{}, Deadline::in(10s), "the status");
  EXPECT_EQ(status.state, cluster::JobPhase::kRunning);
  EXPECT_FAILS(observer->call<cluster::Done>(99, 0, cluster::Done{}, Deadline::in(10s), "x"), InvalidArgument,
               "kind 99");
  const auto reply = observer->call<cluster::HeartbeatReply>(cluster::kHeartbeat, 0, cluster::Heartbeat{.member = 99},
                                                             Deadline::in(10s), "a heartbeat");
  EXPECT_TRUE(reply.expelled);
  EXPECT_FAILS(net::Connection::open(loop, master.address(), {.secret = "no"}), Unauthenticated, "secret");
}

TEST_F(MasterTest, LostMasterAbortsTheMembers) {
  Inbox inbox;
  auto other = std::make_unique<Master>(master_options(1, 0));
  const cluster::Membership member(loop, member_options(*other, cluster::Role::kWorker, 0), inbox.events());
  other.reset();
  EXPECT_THAT(inbox.wait_abort(), HasSubstr("the master"));
}

TEST(Master, AHangIsNoticedAndNamed) {
  auto options = master_options(2, 0);
  options.hang_after = 3s;
  const Master master(options);
  net::EventLoop loop("members");
  auto quiet = member_options(master, cluster::Role::kWorker, 1);
  quiet.heartbeat_every = 1h;
  auto hung = std::async(std::launch::async, [&] {
    return std::make_unique<cluster::Membership>(loop, quiet, cluster::Membership::Events{});
  });
  Inbox inbox;
  const cluster::Membership well(loop, member_options(master, cluster::Role::kWorker, 0), inbox.events());
  const auto stays = hung.get();
  EXPECT_THAT(inbox.wait_abort(), HasSubstr("worker 1 (pid"));
  EXPECT_THAT(inbox.wait_abort(), HasSubstr("hangs"));
}

TEST(Master, TimeoutNamesTheMissingMembers) {
  auto options = master_options(3, 1);
  options.gather_within = 3s;
  const Master master(options);
  net::EventLoop loop("members");
  EXPECT_THAT(master.status().reason, HasSubstr("waiting for server 0, worker 0"));
  EXPECT_FAILS(cluster::Membership(loop, member_options(master, cluster::Role::kWorker, 1), {}), Timeout,
               "server 0, worker 0, worker 2 did not join within 3 s");
  EXPECT_TRUE(master.over());
}

TEST(Master, MemberThatDiesWhileGatheringMayRejoin) {
  const Master master(master_options(2, 0));
  net::EventLoop loop("members");
  {
    auto impatient = member_options(master, cluster::Role::kWorker, 1);
    impatient.join_within = 100ms;
    EXPECT_THROW(cluster::Membership(loop, impatient, {}), Timeout);
  }
  auto again = std::async(std::launch::async, [&] {
    for (;;) {
      try {
        return std::make_unique<cluster::Membership>(loop, member_options(master, cluster::Role::kWorker, 1),
                                                     cluster::Membership::Events{});
      } catch (const InvalidArgument&) {  // the master has not noticed yet
      }
    }
  });
  const cluster::Membership first(loop, member_options(master, cluster::Role::kWorker, 0), {});
  EXPECT_EQ(again.get()->view().workers.size(), 2u);
}

TEST(Master, RefusesADuplicateRankWhileGathering) {
  const Master master(master_options(2, 0));
  net::EventLoop loop("members");
  auto first = std::async(std::launch::async, [&] {
    return std::make_unique<cluster::Membership>(loop, member_options(master, cluster::Role::kWorker, 0),
                                                 cluster::Membership::Events{});
  });
  ASSERT_TRUE(eventually([&] { return master.status().reason == "waiting for worker 1"; }));
  EXPECT_FAILS(cluster::Membership(loop, member_options(master, cluster::Role::kWorker, 0), {}), InvalidArgument,
               "worker 0", "same role");
  const cluster::Membership second(loop, member_options(master, cluster::Role::kWorker, 1), {});
  first.get();
}

TEST(Master, RefusesAJobWithoutWorkers) {
  EXPECT_FAILS(Master(master_options(0, 1)), InvalidArgument, "at least one worker");
}

}  // namespace
}  // namespace trireme::master
