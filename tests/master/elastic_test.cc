// Workers come and go: a master and its members in one process.
#include <future>
#include <mutex>

#include "base/error.h"
#include "cluster/membership.h"
#include "master/master.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"
#include "tests/support/secret.h"

namespace trireme::master {
namespace {

/// A job without servers that survives the death of workers.
class ElasticTest : public ::testing::Test {
 protected:
  struct Worker {
    std::atomic<View> regroup_now{0};
    std::atomic<View> regroup_later{0};
    std::unique_ptr<cluster::Membership> membership;
  };

  void start(const JobShape& shape, std::chrono::milliseconds wait_for_workers = 60s, std::uint64_t max_views = 0) {
    gather(shape, wait_for_workers, max_views);
    for (auto& worker : workers_) worker->membership->set_plan(plan_);
  }

  /// The first view, before anybody has said what kind of job it is.
  void gather(JobShape shape, std::chrono::milliseconds wait_for_workers = 60s, std::uint64_t max_views = 0) {
    shape.servers = 0;
    initial_ = shape.workers;
    master_ = std::make_unique<Master>(MasterOptions{.service = {.listener = {.name = "master", .secret = kSecret}},
                                                     .shape = shape,
                                                     .hang_after = hang_after_,
                                                     .gather_within = 20s,
                                                     .wait_for_members = wait_for_workers,
                                                     .plan_within = plan_within_,
                                                     .max_views = max_views});
    std::vector<std::future<std::unique_ptr<Worker>>> joins;
    for (std::uint32_t slot = 0; slot < shape.workers; ++slot) joins.push_back(join(slot));
    for (auto& worker : joins) workers_.push_back(worker.get());
  }

  std::future<std::unique_ptr<Worker>> join(std::uint32_t slot, std::chrono::milliseconds heartbeat_every = 20ms,
                                            bool as_learner = false) {
    return std::async(std::launch::async, [this, slot, heartbeat_every, as_learner] {
      auto worker = std::make_unique<Worker>();
      worker->membership = std::make_unique<cluster::Membership>(
          loop_,
          cluster::MembershipOptions{.slot = slot,
                                     .master = master_->address(),
                                     .as_learner = as_learner,
                                     .secret = kSecret,
                                     .heartbeat_every = heartbeat_every},
          cluster::Membership::Events{
              .on_regroup = [worker = worker.get()](View view, cluster::Regroup when, const std::string&) {
                (when == cluster::Regroup::kNow ? worker->regroup_now : worker->regroup_later).store(view);
              }});
      return worker;
    });
  }

  static void wait_for(const std::atomic<View>& word, View view) {
    ASSERT_TRUE(eventually([&] { return word.load() == view; })) << word.load() << " instead of " << view;
  }

  std::unique_ptr<Worker> refresh_view(std::uint32_t slot) { return join(slot, 20ms, /*as_learner=*/true).get(); }

  void scale(std::uint32_t workers) {
    const auto observer = net::Connection::open(loop_, master_->address(), {.secret = kSecret});
    observer->call<cluster::Done>(cluster::kScale, 0, cluster::ScaleRequest{workers}, Deadline::in(10s),
                                  "another number of workers");
  }

  bool is_eventually(cluster::JobPhase state) const {
    return eventually([&] { return master_->status().state == state; });
  }

  /// All of these workers meet in the next view.
  static void regroup(const std::vector<Worker*>& workers) {
    std::vector<std::future<bool>> arrivals;
    for (Worker* worker : workers) {
      arrivals.push_back(std::async(std::launch::async, [worker] { return worker->membership->regroup("a test"); }));
    }
    for (auto& arrival : arrivals) EXPECT_TRUE(arrival.get());
  }

  cluster::Plan plan_{
      .steps = 100, .steps_per_epoch = 100, .batch = 8, .lanes = 4, .elastic = true, .strategy = "allreduce"};
  std::uint32_t initial_ = 0;
  std::chrono::milliseconds plan_within_ = 0s;
  std::chrono::milliseconds hang_after_ = 20s;  // what depends on the time is in job_state_test
  net::EventLoop loop_{"members"};
  std::unique_ptr<Master> master_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

TEST_F(ElasticTest, OthersContinueWithoutADeadWorker) {
  start({.workers = 3});
  workers_[0].reset();
  wait_for(workers_[1]->regroup_now, 1);
  wait_for(workers_[2]->regroup_now, 1);
  regroup({workers_[1].get(), workers_[2].get()});
  EXPECT_EQ(workers_[1]->membership->view().view, 2u);
  EXPECT_EQ(workers_[1]->membership->rank(), 0u);
  EXPECT_EQ(workers_[2]->membership->rank(), 1u);
  EXPECT_EQ(slots_of(master_->status().workers), (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(master_->status().state, cluster::JobPhase::kRunning);
}

TEST_F(ElasticTest, NewcomerTakesPartAfterAStep) {
  start({.workers = 2});
  workers_[1].reset();
  wait_for(workers_[0]->regroup_now, 1);
  regroup({workers_[0].get()});
  auto again = join(1);
  wait_for(workers_[0]->regroup_later, 2);
  regroup({workers_[0].get()});
  workers_[1] = again.get();
  EXPECT_EQ(workers_[1]->membership->view().view, 3u);
  EXPECT_EQ(workers_[1]->membership->rank(), 1u);
}

TEST_F(ElasticTest, OthersDoNotWaitForALearner) {
  start({.workers = 2});
  scale(3);
  const auto learner = refresh_view(2);
  EXPECT_TRUE(learner->membership->learner());
  EXPECT_EQ(learner->membership->view().view, 1u);
  EXPECT_EQ(learner->membership->view().workers.size(), 3u);
  EXPECT_EQ(learner->membership->rank(), 2u);
  EXPECT_EQ(workers_[0]->regroup_later.load(), 0u);
  EXPECT_EQ(slots_of(master_->status().workers), (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(slots_of(master_->status().others), (std::vector<std::uint32_t>{2}));
  EXPECT_EQ(master_->status().clocks.size(), 2u);

  auto entered = std::async(std::launch::async, [&] { return learner->membership->regroup("is ready"); });
  wait_for(workers_[0]->regroup_later, 1);
  regroup({workers_[0].get(), workers_[1].get()});
  EXPECT_TRUE(entered.get());
  EXPECT_FALSE(learner->membership->learner());
  EXPECT_EQ(learner->membership->view().view, 2u);
  EXPECT_EQ(learner->membership->rank(), 2u);
}

TEST_F(ElasticTest, LearnerLearnsOfTheNextView) {
  start({.workers = 2});
  scale(3);
  const auto learner = refresh_view(2);
  workers_[0].reset();
  wait_for(workers_[1]->regroup_now, 1);
  regroup({workers_[1].get()});
  EXPECT_TRUE(learner->membership->refresh_view());
  EXPECT_TRUE(learner->membership->learner());
  EXPECT_EQ(learner->membership->view().view, 2u);
  EXPECT_EQ(learner->membership->rank(), 1u);
}

TEST_F(ElasticTest, LearnerBecomesAMemberWhenNoWorkerIsLeft) {
  hang_after_ = 3s;  // the master waits for the last worker as long as that
  start({.workers = 1});
  scale(2);
  const auto learner = refresh_view(1);
  workers_[0].reset();
  ASSERT_TRUE(eventually([&] { return master_->status().workers.empty(); }));  // else it would still be a learner
  EXPECT_TRUE(learner->membership->refresh_view());
  EXPECT_FALSE(learner->membership->learner());
  EXPECT_EQ(learner->membership->view().view, 2u);
  EXPECT_EQ(learner->membership->rank(), 0u);
}

TEST_F(ElasticTest, ReserveWorkerIsNotALearner) {
  hang_after_ = 3s;  // likewise
  plan_.lanes = 1;
  start({.workers = 1});
  scale(2);
  auto reserve = join(1, 20ms, /*as_learner=*/true);
  ASSERT_TRUE(eventually([&] { return slots_of(master_->status().others) == std::vector<std::uint32_t>{1}; }));
  EXPECT_EQ(reserve.wait_for(0s), std::future_status::timeout);
  workers_[0].reset();
  workers_[0] = reserve.get();
  EXPECT_FALSE(workers_[0]->membership->learner());
  EXPECT_EQ(workers_[0]->membership->view().view, 2u);
}

TEST_F(ElasticTest, ALearnerThatIsNoLongerNeededIsReleased) {
  start({.workers = 1});
  scale(2);
  const auto learner = refresh_view(1);
  scale(1);
  EXPECT_FALSE(learner->membership->regroup("is ready"));
  EXPECT_EQ(workers_[0]->regroup_later.load(), 0u);
}

TEST_F(ElasticTest, DeathOfALearnerDoesNotDisturbTheOthers) {
  start({.workers = 1});
  scale(2);
  auto learner = refresh_view(1);
  learner.reset();
  ASSERT_TRUE(eventually([&] { return master_->status().others.empty(); }));
  const auto next = refresh_view(1);  // in the same slot, which the master knows to be free
  EXPECT_TRUE(next->membership->learner());
  EXPECT_EQ(workers_[0]->regroup_now.load(), 0u);
  EXPECT_EQ(master_->status().view, 1u);
}

TEST_F(ElasticTest, DeathBeforeThePlanWaitsForThePlan) {
  plan_within_ = 20s;
  gather({.workers = 2});
  workers_[0].reset();
  workers_[1]->membership->set_plan(plan_);
  wait_for(workers_[1]->regroup_now, 1);
  regroup({workers_[1].get()});
  EXPECT_EQ(slots_of(master_->status().workers), (std::vector<std::uint32_t>{1}));
}

TEST_F(ElasticTest, DeathBeforeANonElasticPlanFailsTheJob) {
  plan_within_ = 20s;
  plan_.elastic = false;
  gather({.workers = 2});
  workers_[0].reset();
  workers_[1]->membership->set_plan(plan_);
  ASSERT_TRUE(is_eventually(cluster::JobPhase::kFailed));
  EXPECT_THAT(master_->status().reason, ::testing::HasSubstr("worker 0"));
}

TEST_F(ElasticTest, DeathWithoutAPlanFailsTheJobAfterPlanWithin) {
  plan_within_ = 300ms;
  gather({.workers = 2});
  workers_[0].reset();
  ASSERT_TRUE(is_eventually(cluster::JobPhase::kFailed));
  EXPECT_THAT(master_->status().reason, ::testing::HasSubstr("worker 0"));
}

TEST_F(ElasticTest, SilentWorkerIsExpelledAndRejoins) {
  hang_after_ = 3s;
  start({.workers = 1});
  auto silent = join(1);
  EXPECT_FAILS(silent.get(), InvalidArgument, "this job has 1 workers");
  scale(2);
  auto stopped = join(1, /*heartbeat_every=*/5s);  // longer than the master's patience
  wait_for(workers_[0]->regroup_later, 1);
  regroup({workers_[0].get()});
  workers_.push_back(stopped.get());
  wait_for(workers_[0]->regroup_now, 2);
  regroup({workers_[0].get()});
  wait_for(workers_[1]->regroup_now, 2);  // it learns that it is no member any more
  auto back = std::async(std::launch::async, [&] { return workers_[1]->membership->regroup("expelled"); });
  wait_for(workers_[0]->regroup_later, 3);
  regroup({workers_[0].get()});
  EXPECT_TRUE(back.get());
  EXPECT_EQ(workers_[1]->membership->view().view, 4u);
}

TEST_F(ElasticTest, BelowTheMinimumWaitsAndThenContinues) {
  start({.workers = 2, .min_workers = 2});
  workers_[1].reset();
  wait_for(workers_[0]->regroup_now, 1);
  auto waiting = std::async(std::launch::async, [&] { return workers_[0]->membership->regroup("lost a peer"); });
  ASSERT_TRUE(is_eventually(cluster::JobPhase::kWaiting));
  EXPECT_THAT(master_->status().reason, ::testing::HasSubstr("1 of at least 2 workers are here"));
  workers_[1] = join(1).get();
  EXPECT_TRUE(waiting.get());
  EXPECT_EQ(master_->status().state, cluster::JobPhase::kRunning);
  EXPECT_EQ(workers_[1]->membership->view().workers.size(), 2u);
}

TEST_F(ElasticTest, BelowTheMinimumFailsAfterTheTimeout) {
  start({.workers = 2, .min_workers = 2}, /*wait_for_workers=*/300ms);
  workers_[1].reset();
  wait_for(workers_[0]->regroup_now, 1);
  EXPECT_FAILS(workers_[0]->membership->regroup("lost a peer"), Timeout, "nobody came within",
               "1 of at least 2 workers");
  EXPECT_EQ(master_->status().state, cluster::JobPhase::kFailed);
}

TEST_F(ElasticTest, TheNumberOfViewsCanBeLimited) {
  start({.workers = 2}, 60s, /*max_views=*/1);
  workers_[1].reset();
  wait_for(workers_[0]->regroup_now, 1);
  EXPECT_FAILS(workers_[0]->membership->regroup("lost a peer"), Timeout, "--max-views", "worker 1 (pid", "died");
}

TEST_F(ElasticTest, WaitingWorkersLearnThatTheJobFinished) {
  start({.workers = 2});
  auto done = std::async(std::launch::async, [&] { return workers_[1]->membership->regroup("done", true); });
  workers_[0]->membership->post_result({{"steps", 100}});
  workers_[0]->membership->leave();
  EXPECT_FALSE(done.get());
  EXPECT_EQ(master_->status().state, cluster::JobPhase::kFinished);
}

TEST_F(ElasticTest, AChiefThatDiesBeforeTheEndIsReplaced) {
  start({.workers = 2});
  auto done = std::async(std::launch::async, [&] { return workers_[1]->membership->regroup("done", true); });
  workers_[0].reset();
  EXPECT_TRUE(done.get());
  EXPECT_EQ(workers_[1]->membership->rank(), 0u);
  EXPECT_EQ(workers_[1]->membership->view().view, 2u);
}

}  // namespace
}  // namespace trireme::master
