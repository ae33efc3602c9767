#include "ps/chunk.h"

#include <deque>
#include <optional>

#include "base/error.h"
#include "base/random.h"
#include "tests/support/expect_fails.h"

namespace trireme::ps {
namespace {

constexpr std::size_t kSize = 5000;  // more than one block of the update loop

struct Answer final : ChunkWaiter {
  std::optional<StepOutcome> reply;
  int answers = 0;
  std::string refused;
  void chunk_done(const StepOutcome& given) override {
    reply = given;
    ++answers;
  }
  void chunk_refused(const std::exception& reason) override { refused = reason.what(); }
};

/// What a test starts with: the policy of a chunk and the number of workers.
struct Setting {
  ChunkPolicy policy;
  std::uint32_t workers;
};

/// One chunk of plain SGD and the workers around it; in view 1.
struct Bench {
  explicit Bench(Setting given) : policy(std::move(given.policy)), chunk(policy, {}, parameters, &word) {
    enter(given.workers);
  }

  void enter(std::uint32_t workers) { chunk.enter(++view, workers, {}); }

  std::shared_ptr<Answer> push(Rank worker, Step step, LaneRange lanes, std::vector<float> gradient, double samples = 1,
                               bool stop = false, std::optional<std::uint64_t> unit = {}) {
    gradients.push_back(std::move(gradient));
    auto answer = std::make_shared<Answer>();
    chunk.push({.view = view,
                .worker = worker,
                .info = {.step = step,
                         .unit = unit.value_or(100 * step + worker),
                         .lanes = lanes,
                         .samples = samples,
                         .lr = 1,
                         .stop = stop},
                .gradient = gradients.back().data(),
                .copy_to = nullptr,
                .waiter = answer});
    return answer;
  }

  std::shared_ptr<Answer> pull(Rank worker, float* to) {
    auto answer = std::make_shared<Answer>();
    chunk.pull({.view = view, .worker = worker, .copy_to = to, .waiter = answer});
    return answer;
  }

  std::shared_ptr<Answer> assign(const std::vector<float>& values) {
    auto answer = std::make_shared<Answer>();
    chunk.assign(values, view, answer);
    return answer;
  }

  ChunkPolicy policy;
  View view = 0;
  std::deque<std::vector<float>> gradients;  // alive until the rounds are made
  std::vector<float> parameters = std::vector<float>(kSize, 0.0f);
  std::atomic<std::uint64_t> word{0};
  Chunk chunk;
};

Setting bsp(std::uint32_t workers, Lane lanes, std::uint32_t backup_workers = 0) {
  return {{.update = {}, .consistency = {.backup_workers = backup_workers}, .lanes = lanes, .pool = nullptr}, workers};
}

Setting at_once(std::uint32_t workers, std::optional<Step> slack = {}, bool damp = false) {
  const auto mode = slack ? Consistency::Mode::kSsp : Consistency::Mode::kAsp;
  return {{.update = {},
           .consistency = {.mode = mode, .slack = slack.value_or(0), .damp_stale = damp},
           .lanes = workers,
           .pool = nullptr},
          workers};
}

std::vector<float> all(float value) { return std::vector<float>(kSize, value); }

std::vector<float> noise(std::uint64_t seed) {
  RandomStream random(seed);
  std::vector<float> values(kSize);
  for (float& value : values) value = static_cast<float>(random.normal() * 1e3);
  return values;
}

TEST(Chunk, BspDoesNotDependOnTheOrderOfArrival) {
  std::vector<Rank> order{0, 1, 2, 3};
  std::vector<std::vector<float>> gradients;
  for (Rank worker = 0; worker < 4; ++worker) gradients.push_back(noise(worker));
  std::vector<float> expected;
  do {
    Bench bench(bsp(4, 4));
    std::vector<std::shared_ptr<Answer>> answers;
    for (const Rank worker : order) {
      for (const auto& early : answers) EXPECT_EQ(early->answers, 0);
      answers.push_back(bench.push(worker, 0, {worker, 1}, gradients[worker]));
    }
    for (const auto& answer : answers) EXPECT_EQ(answer->answers, 1);
    if (expected.empty()) expected = bench.parameters;
    ASSERT_EQ(bench.parameters, expected);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Chunk, BspDoesNotDependOnTheAssignmentOfLanes) {
  std::vector<std::vector<float>> lanes;
  for (Lane lane = 0; lane < 4; ++lane) lanes.push_back(noise(lane));
  Bench four(bsp(4, 4));
  for (Lane lane = 0; lane < 4; ++lane) four.push(lane, 0, {lane, 1}, lanes[lane]);
  std::vector<float> left(kSize);
  for (std::size_t i = 0; i < kSize; ++i) left[i] = lanes[0][i] + lanes[1][i];
  Bench three(bsp(3, 4));
  three.push(2, 0, {3, 1}, lanes[3]);
  three.push(0, 0, {0, 2}, left, 2);
  three.push(1, 0, {2, 1}, lanes[2]);
  EXPECT_EQ(three.parameters, four.parameters);
}

TEST(Chunk, AveragesAreWeightedBySamples) {
  Bench bench(bsp(2, 2));
  bench.push(0, 0, {0, 1}, all(30), 10);
  bench.push(1, 0, {1, 1}, all(6), 2);
  EXPECT_EQ(bench.parameters[0], -3.0f);
  EXPECT_EQ(bench.word, 2u);
}

TEST(Chunk, AnEmptyStepCountsButChangesNothing) {
  Bench bench(bsp(2, 2));
  bench.push(0, 0, {0, 1}, all(30), 0);
  const auto answer = bench.push(1, 0, {1, 1}, all(6), 0);
  EXPECT_EQ(answer->reply->newest, 1u);
  EXPECT_EQ(bench.parameters[0], 0.0f);
}

TEST(Chunk, BspAResentPushIsNotAppliedTwice) {
  Bench bench(bsp(2, 2));
  const auto lost = bench.push(0, 0, {0, 1}, all(1));
  const auto again = bench.push(0, 0, {0, 1}, all(1));  // before the round: replaces the first
  bench.push(1, 0, {1, 1}, all(3));
  EXPECT_EQ(lost->answers, 0);
  EXPECT_TRUE(again->reply->counted);
  EXPECT_EQ(bench.parameters[0], -2.0f);
  const auto late = bench.push(0, 0, {0, 1}, all(1));  // after it
  EXPECT_FALSE(late->reply->counted);
  EXPECT_EQ(late->reply->newest, 1u);
  EXPECT_EQ(bench.parameters[0], -2.0f);
}

TEST(Chunk, BackupWorkersLateGradientsAreDropped) {
  Bench bench(bsp(3, 3, 1));
  const auto first = bench.push(2, 0, {2, 1}, all(2));
  EXPECT_EQ(first->answers, 0);
  const auto second = bench.push(0, 0, {0, 1}, all(4));
  EXPECT_TRUE(first->reply->counted && second->reply->counted);
  EXPECT_EQ(bench.parameters[0], -3.0f);
  const auto late = bench.push(1, 0, {1, 1}, all(100));
  EXPECT_FALSE(late->reply->counted);
  EXPECT_EQ(bench.parameters[0], -3.0f);
  bench.push(1, 1, {1, 1}, all(1));
  EXPECT_TRUE(bench.push(0, 1, {0, 1}, all(1))->reply->counted);
}

TEST(Chunk, BspAGradientOfALaterStepWaitsForItsRound) {
  Bench bench(bsp(2, 2));
  const auto early = bench.push(1, 1, {1, 1}, all(10));
  bench.push(1, 0, {1, 1}, all(1));
  bench.push(0, 0, {0, 1}, all(1));
  EXPECT_EQ(bench.parameters[0], -1.0f);
  EXPECT_EQ(early->answers, 0);
  bench.push(0, 1, {0, 1}, all(10));
  EXPECT_EQ(early->reply->newest, 2u);
  EXPECT_EQ(bench.parameters[0], -11.0f);
}

TEST(Chunk, BspDoesNotWaitForWorkersThatLeft) {
  Bench bench(bsp(3, 3));
  const auto one = bench.push(0, 0, {0, 1}, all(1));
  const auto two = bench.push(1, 0, {1, 1}, all(1));
  EXPECT_EQ(two->answers, 0);
  bench.chunk.leave(2);
  bench.chunk.leave(2);
  bench.chunk.leave(99);
  EXPECT_EQ(one->answers, 1);
  EXPECT_EQ(two->answers, 1);
  bench.chunk.leave(1);
  EXPECT_EQ(bench.push(0, 1, {0, 1}, all(1))->answers, 1);
}

TEST(Chunk, AllSeeTheStopInTheSameRound) {
  Bench bench(bsp(2, 2));
  const auto asks = bench.push(0, 0, {0, 1}, all(1), 1, /*stop=*/true);
  const auto other = bench.push(1, 0, {1, 1}, all(1));
  EXPECT_TRUE(asks->reply->stop);
  EXPECT_TRUE(other->reply->stop);
}

TEST(Chunk, RefusesInvalidRequestsWithoutEffect) {
  Bench bench(bsp(2, 4));
  EXPECT_FAILS(bench.push(2, 0, {0, 2}, all(1)), InvalidArgument, "worker 2", "2 workers");
  EXPECT_FAILS(bench.push(0, 0, {1, 2}, all(1)), InvalidArgument, "lanes 1..3", "subtree");
  EXPECT_FAILS(bench.push(0, 0, {0, 0}, all(1)), InvalidArgument, "subtree");
  EXPECT_FAILS(bench.push(0, 0, {0xffffffff, 2}, all(1)), InvalidArgument, "subtree");
  EXPECT_FAILS(bench.push(0, 0, {4, 1}, all(1)), InvalidArgument, "subtree");
  EXPECT_FAILS(bench.push(0, 0, {0, 2}, all(1), -1), InvalidArgument, "-1 samples");
  EXPECT_FAILS(bench.push(0, 0, {0, 2}, all(1), std::nan("")), InvalidArgument, "nan samples");
  EXPECT_FAILS(bench.pull(2, nullptr), InvalidArgument, "worker 2");
  bench.push(0, 0, {0, 2}, all(1));
  EXPECT_FAILS(bench.push(1, 0, {0, 4}, all(1)), InvalidArgument, "workers 0 and 1", "lane 0");
  EXPECT_EQ(bench.push(1, 0, {2, 2}, all(1))->answers, 1);
  EXPECT_EQ(bench.parameters[0], -1.0f);
}

TEST(Chunk, EarlyPullsWaitForTheInitialValues) {
  Bench bench(bsp(2, 2));
  std::vector<float> copy(kSize);
  const auto early = bench.pull(1, copy.data());
  EXPECT_EQ(early->answers, 0);
  bench.assign(all(7));
  EXPECT_EQ(early->answers, 1);
  EXPECT_EQ(copy, all(7));
  EXPECT_EQ(bench.pull(0, copy.data())->answers, 1);
  bench.push(0, 0, {0, 1}, all(1));
  bench.push(1, 0, {1, 1}, all(1));
  bench.assign(all(100));  // too late
  EXPECT_EQ(bench.parameters[0], 6.0f);
}

TEST(Chunk, AspAppliesEachPushAtOnceAndOnlyOnce) {
  Bench bench(at_once(2));
  EXPECT_EQ(bench.push(0, 0, {0, 1}, all(1))->reply->newest, 1u);
  EXPECT_EQ(bench.push(0, 1, {0, 1}, all(1))->reply->newest, 2u);
  const auto again = bench.push(0, 1, {0, 1}, all(1));
  EXPECT_FALSE(again->reply->counted);
  EXPECT_EQ(bench.parameters[0], -2.0f);
  EXPECT_TRUE(bench.push(1, 0, {1, 1}, all(1))->reply->counted);
}

TEST(Chunk, SspHoldsBackAndReleasesTheFastWorker) {
  Bench bench(at_once(2, 2));
  EXPECT_EQ(bench.push(0, 0, {0, 1}, all(1))->answers, 1);
  EXPECT_EQ(bench.push(0, 1, {0, 1}, all(1))->answers, 1);
  const auto held = bench.push(0, 2, {0, 1}, all(1));
  EXPECT_EQ(held->answers, 0);
  EXPECT_EQ(bench.parameters[0], -3.0f) << "held back, but applied";
  const auto again = bench.push(0, 2, {0, 1}, all(1));  // resent over a new connection
  EXPECT_EQ(bench.parameters[0], -3.0f);
  EXPECT_EQ(bench.push(1, 0, {1, 1}, all(1))->answers, 1);
  EXPECT_EQ(held->answers, 0);
  EXPECT_EQ(again->answers, 1);
}

TEST(Chunk, SspLeavingWorkerReleasesTheOthers) {
  Bench bench(at_once(3, 0));
  const auto held = bench.push(0, 0, {0, 1}, all(1));
  bench.push(1, 0, {1, 1}, all(1));
  EXPECT_EQ(held->answers, 0);
  bench.chunk.leave(2);
  EXPECT_EQ(held->answers, 1);
  bench.chunk.leave(0);
  bench.chunk.leave(1);
  EXPECT_EQ(bench.push(1, 1, {1, 1}, all(1))->answers, 1);
}

TEST(Chunk, StaleGradientsCountLess) {
  Bench bench(at_once(2, {}, /*damp=*/true));
  for (Step step = 0; step < 4; ++step) bench.push(0, step, {0, 1}, all(1));
  EXPECT_EQ(bench.parameters[0], -4.0f);
  bench.push(1, 0, {1, 1}, all(1));  // computed before these four
  EXPECT_EQ(bench.parameters[0], -4.25f);
}

// ---- Views.

TEST(Chunk, BspAStepIsPushedAgainInTheNextViewWithOtherLanes) {
  std::vector<std::vector<float>> lanes;
  for (Lane lane = 0; lane < 4; ++lane) lanes.push_back(noise(lane));
  std::vector<float> left(kSize);
  for (std::size_t i = 0; i < kSize; ++i) left[i] = lanes[0][i] + lanes[1][i];
  Bench calm(bsp(4, 4));
  for (Lane lane = 0; lane < 4; ++lane) calm.push(lane, 0, {lane, 1}, lanes[lane]);

  Bench bench(bsp(4, 4));
  const auto first = bench.push(0, 0, {0, 1}, lanes[0]);
  const auto pull = bench.pull(1, nullptr);  // before the initial values
  bench.push(3, 0, {3, 1}, lanes[3]);
  bench.enter(3);  // one of them has died
  EXPECT_EQ(first->answers, 0);
  EXPECT_THAT(first->refused, ::testing::HasSubstr("view 1 has ended"));
  EXPECT_THAT(pull->refused, ::testing::HasSubstr("view 1 has ended"));
  bench.push(2, 0, {3, 1}, lanes[3]);
  bench.push(0, 0, {0, 2}, left, 2);
  EXPECT_EQ(bench.push(1, 0, {2, 1}, lanes[2])->answers, 1);
  EXPECT_EQ(bench.parameters, calm.parameters);
  bench.enter(3);
  const auto again = bench.push(1, 0, {2, 1}, lanes[2]);  // it did not know that the step was made
  EXPECT_FALSE(again->reply->counted);
  EXPECT_EQ(again->reply->newest, 1u);
  EXPECT_EQ(bench.parameters, calm.parameters);
}

TEST(Chunk, RefusesRequestsOfAnotherView) {
  Bench bench(bsp(1, 1));
  bench.enter(1);
  const auto answer = std::make_shared<Answer>();
  const std::vector<float> gradient = all(1);
  for (const View view : {View{0}, View{1}, View{3}}) {
    EXPECT_FAILS(
        bench.chunk.push(
            {.view = view, .info = {.lanes = {0, 1}, .samples = 1}, .gradient = gradient.data(), .waiter = answer}),
        StaleView, "view 2");
    EXPECT_FAILS(bench.chunk.pull({.view = view, .waiter = answer}), StaleView, "view 2");
    EXPECT_FAILS(bench.chunk.assign(gradient, view, answer), StaleView, "view 2");
  }
}

TEST(Chunk, UnitCountsOnceFromAnyWorker) {
  Bench bench(at_once(2));
  EXPECT_TRUE(bench.push(0, 0, {0, 1}, all(1), 1, false, 7)->reply->counted);
  EXPECT_FALSE(bench.push(1, 0, {1, 1}, all(1), 1, false, 7)->reply->counted);
  EXPECT_EQ(bench.parameters[0], -1.0f);
  bench.enter(2);
  EXPECT_FALSE(bench.push(1, 0, {0, 1}, all(1), 1, false, 7)->reply->counted);
  EXPECT_TRUE(bench.push(1, 1, {0, 1}, all(1), 1, false, 8)->reply->counted);
  EXPECT_EQ(bench.parameters[0], -2.0f);
}

TEST(Chunk, SspRepeatedUnitThatIsHeldBackDoesNotCount) {
  Bench bench(at_once(3, 0));
  bench.push(0, 0, {0, 1}, all(1), 1, false, 7);  // applied, and held back until the view ends
  bench.enter(3);
  const auto again = bench.push(1, 0, {1, 1}, all(1), 1, false, 7);
  EXPECT_EQ(again->answers, 0);
  bench.push(2, 0, {2, 1}, all(1), 1, false, 8);
  bench.push(0, 1, {0, 1}, all(1), 1, false, 9);
  ASSERT_EQ(again->answers, 1);
  EXPECT_FALSE(again->reply->counted);
  EXPECT_EQ(bench.parameters[0], -3.0f);
}

TEST(Chunk, BspRegroupRequestReachesAllWorkersOfItsRoundOnly) {
  Bench bench(bsp(2, 2));
  const std::vector<float> gradient = all(1);
  const auto wish = std::make_shared<Answer>();
  bench.chunk.push({.view = bench.view,
                    .worker = 0,
                    .info = {.lanes = {0, 1}, .samples = 1, .lr = 1, .regroup = true},
                    .gradient = gradient.data(),
                    .waiter = wish});
  const auto other = bench.push(1, 0, {1, 1}, all(1));
  EXPECT_TRUE(wish->reply->regroup);
  EXPECT_TRUE(other->reply->regroup);
  bench.push(0, 1, {0, 1}, all(1));
  EXPECT_FALSE(bench.push(1, 1, {1, 1}, all(1))->reply->regroup);
}

TEST(Chunk, ClearedChunkWaitsForItsValues) {
  Bench bench(bsp(1, 1));
  EXPECT_FALSE(bench.chunk.load_status().first);
  bench.assign(all(3));
  EXPECT_EQ(bench.chunk.load_status(), std::pair(true, Step{0}));
  bench.push(0, 0, {0, 1}, all(1));
  EXPECT_EQ(bench.chunk.load_status(), std::pair(true, Step{1}));
  EXPECT_FAILS(bench.chunk.clear(bench.view + 1), StaleView, "view 1");
  bench.chunk.clear(bench.view);
  EXPECT_FALSE(bench.chunk.load_status().first);
  EXPECT_EQ(bench.pull(0, nullptr)->answers, 0);
}

TEST(Chunk, SspClocksStartAnewInEachView) {
  Bench bench(at_once(2, 1));
  std::uint64_t unit = 0;
  const auto push = [&](Rank worker, Step step) { return bench.push(worker, step, {0, 1}, all(1), 1, false, unit++); };
  for (Step step = 0; step < 5; ++step) {
    push(0, step);
    push(1, step);
  }
  EXPECT_EQ(push(0, 5)->answers, 1) << "one ahead";
  EXPECT_EQ(push(0, 6)->answers, 0) << "two ahead";
  bench.enter(2);
  EXPECT_EQ(push(0, 6)->answers, 1) << "one ahead of the slowest in this view";
  EXPECT_EQ(push(0, 7)->answers, 0);
  EXPECT_EQ(push(1, 0)->answers, 1) << "whatever it counts from";
  EXPECT_EQ(push(0, 8)->answers, 0);
  EXPECT_EQ(push(1, 1)->answers, 1);
  EXPECT_EQ(push(1, 2)->answers, 1);
  EXPECT_EQ(push(0, 9)->answers, 1);
}

TEST(Chunk, SspAWorkerWithoutWorkHoldsBackNobody) {
  Bench bench(at_once(2, 1));
  std::uint64_t unit = 0;
  const auto push = [&](Rank worker, Step step) { return bench.push(worker, step, {0, 1}, all(1), 1, false, unit++); };
  EXPECT_EQ(push(0, 0)->answers, 1);
  const auto ahead = push(0, 1);
  EXPECT_EQ(ahead->answers, 0);
  bench.chunk.leave(1);
  EXPECT_EQ(ahead->answers, 1);
  for (Step step = 2; step < 6; ++step) EXPECT_EQ(push(0, step)->answers, 1);
  EXPECT_EQ(push(1, 0)->answers, 1) << "it goes on at the clock of the other one";
  EXPECT_EQ(push(1, 1)->answers, 0) << "two ahead";
}

/// Of two servers each sees pushes that the other one does not, because views end between them.
TEST(Chunk, SspServersThatSawDifferentPushesNeverHoldBackBoth) {
  Bench one(at_once(2, 1));
  Bench other(at_once(2, 1));
  for (Step step = 0; step < 3; ++step) {
    one.push(0, step, {0, 1}, all(1));
    other.push(1, step, {0, 1}, all(1));
    one.enter(2);
    other.enter(2);
  }
  const auto passes = [&](Rank worker) {
    return one.push(worker, 3, {0, 1}, all(1))->answers + other.push(worker, 3, {0, 1}, all(1))->answers == 2;
  };
  EXPECT_TRUE(passes(0));
  EXPECT_TRUE(passes(1));
}

}  // namespace
}  // namespace trireme::ps
