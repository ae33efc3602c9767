#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/parameter_server.h"

#include "job/job_session.h"
#include "master/master.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"
#include "tests/support/secret.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thread_server.h"

namespace trireme::ps {
namespace {

using ::testing::Each;
using ::testing::FloatEq;

/// A job whose processes are threads.
class TestJob {
 public:
  explicit TestJob(std::uint32_t workers, std::uint32_t servers)
      : workers_(workers),
        servers_wanted_(servers),
        master_({.service = {.listener = {.name = "master", .secret = kSecret}},
                 .shape = {.workers = workers, .servers = servers, .replicas = servers > 1 ? 1u : 0u},
                 .hang_after = std::chrono::seconds(20)}) {
    for (std::uint32_t slot = 0; slot < servers; ++slot) {
      servers_.push_back(std::make_unique<ThreadServer>(master_.address(), slot, kSecret));
    }
  }

  std::unique_ptr<Job> join(Rank rank) {
    return std::make_unique<Job>(
        std::make_unique<JobSession>(cluster::JobEnvironment{.rank = rank,
                                                             .workers = workers_,
                                                             .servers = servers_wanted_,
                                                             .master = master_.address(),
                                                             .secret = kSecret,
                                                             .run_folder = folder_.path().string()}));
  }

  /// Runs `body` as every worker; what one of them threw comes out.
  void run(const std::function<void(Job& job)>& body) {
    std::vector<std::future<void>> ends;
    for (Rank rank = 0; rank < workers_; ++rank) {
      ends.push_back(std::async(std::launch::async, [&, rank] { body(*join(rank)); }));
    }
    for (auto& end : ends) end.wait();
    for (auto& end : ends) end.get();
  }

  void kill_server(std::size_t i) { servers_[i].reset(); }

 private:
  const TempFolder folder_;
  const std::uint32_t workers_;
  const std::uint32_t servers_wanted_;
  master::Master master_;
  std::vector<std::unique_ptr<ThreadServer>> servers_;
};

ParameterTablesOptions plain(const std::string& consistency = "bsp") {
  return {.optimizer = {.rule = optim::Rule::kSgd}, .lr = 0.5, .consistency = parse_consistency(consistency)};
}

void fill(std::span<float> values, float value) { std::ranges::fill(values, value); }

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

TEST(ParameterTables, UpdateIsTheRuleAppliedToTheMeanGradient) {
  TestJob cluster(1, 1);
  cluster.run([](Job& job) {
    ParameterTables tables(job, {{"weights", 1000}, {"bias", 3}}, plain());
    fill(tables.parameters("weights"), 1);
    EXPECT_EQ(tables.initialise(), 0u);
    fill(tables.gradients("weights"), 8);
    fill(tables.gradients("bias"), -4);
    tables.push({.samples = 4});
    EXPECT_EQ(tables.wait().version, 1u);
    EXPECT_THAT(copy(tables.parameters("weights")), Each(FloatEq(0)));  // 1 - 0.5 * 8 / 4
    EXPECT_THAT(copy(tables.parameters("bias")), Each(FloatEq(0.5)));
    fill(tables.gradients("weights"), 1);
    fill(tables.gradients("bias"), 0);
    tables.push({.samples = 1, .lr = 2});
    EXPECT_EQ(tables.wait().version, 2u);
    EXPECT_THAT(copy(tables.parameters("weights")), Each(FloatEq(-2)));
    EXPECT_GT(tables.bytes_moved(), 0u);
    tables.leave();
  });
}

TEST(ParameterTables, Bsp_GradientsAreWeightedBySamplesOverAllWorkers) {
  TestJob cluster(2, 2);
  cluster.run([](Job& job) {
    ParameterTables tables(job, {{"weights", 5000}}, plain());
    if (job.chief()) fill(tables.parameters("weights"), 10);
    tables.initialise();
    EXPECT_THAT(copy(tables.parameters("weights")), Each(FloatEq(10)));  // the chief's, for all
    fill(tables.gradients("weights"), job.chief() ? 4.f : 2.f);
    tables.push({.samples = job.chief() ? 1.0 : 3.0});
    EXPECT_EQ(tables.wait().version, 1u);
    EXPECT_THAT(copy(tables.parameters("weights")), Each(FloatEq(10 - 0.5f * 6 / 4)));
    tables.leave();
  });
}

TEST(ParameterTables, Asp_EveryPushIsAnUpdate) {
  TestJob cluster(2, 1);
  constexpr int kPushes = 20;
  cluster.run([](Job& job) {
    ParameterTables tables(job, {{"sum", 64}}, plain("asp"));
    tables.initialise();
    for (int i = 0; i < kPushes; ++i) {
      fill(tables.gradients("sum"), -2);
      tables.push();
      EXPECT_TRUE(tables.wait().counted);
    }
    while (tables.pull() < 2 * kPushes) std::this_thread::yield();  // the other's
    EXPECT_THAT(copy(tables.parameters("sum")), Each(FloatEq(2 * kPushes)));
    tables.leave();
  });
}

TEST(ParameterTables, ServerLost_ItsReplicaTakesOverAndNoPushIsLostOrCountedTwice) {
  for (const std::string consistency : {"bsp", "asp"}) {
    TestJob cluster(2, 2);
    constexpr int kPushes = 60;
    std::atomic<int> pushes{0};
    std::jthread killer([&] {
      while (pushes.load() < kPushes / 2) std::this_thread::yield();
      cluster.kill_server(1);
    });
    cluster.run([&](Job& job) {
      ParameterTables tables(job, {{"sum", 5000}, {"other", 3000}}, plain(consistency));
      tables.initialise();
      for (int i = 0; i < kPushes; ++i) {
        fill(tables.gradients("sum"), -2);
        fill(tables.gradients("other"), -4);
        tables.push();
        tables.wait();
        ++pushes;
      }
      const Step updates = consistency == "bsp" ? kPushes : 2 * kPushes;
      while (tables.pull() < updates) std::this_thread::yield();
      EXPECT_THAT(copy(tables.parameters("sum")), Each(FloatEq(static_cast<float>(updates)))) << consistency;
      EXPECT_THAT(copy(tables.parameters("other")), Each(FloatEq(static_cast<float>(2 * updates)))) << consistency;
      tables.leave();
    });
  }
}

TEST(ParameterTables, ServerLostBetweenTwoPushes_TheNextPushCounts) {
  for (const std::string consistency : {"bsp", "asp"}) {
    TestJob cluster(1, 2);
    cluster.run([&](Job& job) {
      ParameterTables tables(job, {{"sum", 5000}}, plain(consistency));
      tables.initialise();
      for (Step pushes = 1; pushes <= 4; ++pushes) {
        if (pushes == 3) {
          cluster.kill_server(1);
          ASSERT_TRUE(eventually([&] { return !job.session().view_failure().empty(); }));
        }
        fill(tables.gradients("sum"), -2);
        tables.push();
        EXPECT_EQ(tables.wait().version, pushes) << consistency;
      }
      EXPECT_THAT(copy(tables.parameters("sum")), Each(FloatEq(4))) << consistency;
      tables.leave();
    });
  }
}

TEST(ParameterTables, WorkerLost_OthersContinue) {
  TestJob cluster(2, 1);
  cluster.run([&](Job& job) {
    ParameterTables tables(job, {{"sum", 100}}, plain());
    tables.initialise();
    for (int i = 0; i < 20; ++i) {
      if (i == 5 && !job.chief()) return;  // without a word
      fill(tables.gradients("sum"), -2);
      tables.push();
      EXPECT_EQ(tables.wait().version, static_cast<Step>(i + 1));
    }
    EXPECT_EQ(job.workers(), 1u);
    tables.leave();
  });
}

TEST(ParameterTables, MisuseThrowsInvalidArgument) {
  TestJob cluster(1, 1);
  cluster.run([](Job& job) {
    EXPECT_FAILS(ParameterTables(job, {}), InvalidArgument, "there are no tables");
    ParameterTables tables(job, {{"weights", 10}}, plain());
    tables.initialise();
    EXPECT_FAILS(tables.parameters("weight"), InvalidArgument, "no table 'weight'");
    EXPECT_FAILS(tables.wait(), InvalidArgument, "call push() first");
    tables.push();
    EXPECT_FAILS(tables.push(), InvalidArgument, "call wait() first");
    tables.wait();
    tables.leave();
  });
  TestJob without(1, 0);
  without.run([](Job& job) {
    EXPECT_FAILS(ParameterTables(job, {{"weights", 10}}), InvalidArgument, "no servers", "--servers 1");
    job.leave();
  });
}

}  // namespace
}  // namespace trireme::ps
