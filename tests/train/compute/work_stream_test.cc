#include "train/compute/work_stream.h"

#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/sources.h"

#include "base/error.h"
#include "master/master.h"

namespace trireme {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr Lane kStreamLanes = 4;
constexpr std::uint64_t kStreamBatch = 8;
const std::string kMasterSecret = "the secret of these tests";

std::shared_ptr<const data::Dataset> small_dataset() {
  return data::make_synthetic({.train_samples = 40, .test_samples = 1}).train;
}

std::shared_ptr<const data::Sampler> small_sampler() {
  return std::make_shared<data::Sampler>(
      data::SamplerConfig{.samples = 40, .batch = kStreamBatch, .lanes = kStreamLanes});
}

std::vector<Lane> lanes_of(const StepWork& work) {
  std::vector<Lane> lanes;
  for (const data::Item& item : work.items) lanes.push_back(item.work.lane);
  return lanes;
}

TEST(FixedStream, GivesTheSameLanesOfEveryStepInOrder) {
  const auto stream = make_fixed_stream(small_dataset(), small_sampler(), {1, 2}, 3, 6);
  for (Step step = 3; step < 6; ++step) {
    auto work = stream->next(step);
    ASSERT_TRUE(work);
    EXPECT_EQ(work->step, step);
    EXPECT_THAT(lanes_of(*work), ElementsAre(1, 2));
    EXPECT_EQ(work->samples(), 2 * kStreamBatch / kStreamLanes);
    EXPECT_FALSE(work->pause);
    stream->finish(std::move(*work));
  }
  EXPECT_FALSE(stream->next(6));
}

TEST(FixedStream, SamplesAreThoseOfTheSampler) {
  const auto stream = make_fixed_stream(small_dataset(), small_sampler(), {0, kStreamLanes}, 0, 1);
  const auto work = stream->next(0);
  ASSERT_TRUE(work);
  for (const data::Item& item : work->items) {
    EXPECT_EQ(item.work.indices, small_sampler()->indices(0, item.work.lane));
    EXPECT_EQ(item.batch.size(), item.work.indices.size());
  }
}

TEST(FixedStream, SkipsSamplesReadAheadForPastSteps) {
  const auto stream = make_fixed_stream(small_dataset(), small_sampler(), {0, 2}, 0, 100);
  stream->finish(*stream->next(0));
  auto work = stream->next(50);
  ASSERT_TRUE(work);
  EXPECT_EQ(work->step, 50);
  EXPECT_THAT(lanes_of(*work), ElementsAre(0, 1));
  stream->finish(std::move(*work));
  EXPECT_EQ(stream->next(51)->step, 51);
}

TEST(FixedStream, NothingIsLeftAfterTheLastStep) {
  const auto stream = make_fixed_stream(small_dataset(), small_sampler(), {0, 1}, 5, 5);
  EXPECT_FALSE(stream->next(5));
  EXPECT_FALSE(stream->next(5));
  EXPECT_EQ(stream->finished_units(), 0);
}

/// A master of one or more asynchronous workers, and these.
struct LeasedStreamTest : ::testing::Test {
  void start(std::uint32_t workers, cluster::Plan plan) {
    master = std::make_unique<master::Master>(
        master::MasterOptions{.service = {.listener = {.name = "master", .secret = kMasterSecret}},
                              .shape = {.workers = workers, .servers = 0},
                              .hang_after = 60s});
    members.resize(workers);
    std::vector<std::jthread> joining;
    for (std::uint32_t slot = 0; slot < workers; ++slot) {
      joining.emplace_back([this, slot] {
        members[slot] = std::make_unique<cluster::Membership>(
            loop, cluster::MembershipOptions{.slot = slot, .master = master->address(), .secret = kMasterSecret},
            cluster::Membership::Events{});
      });
    }
    joining.clear();
    plan.lanes = kStreamLanes;
    plan.batch = kStreamBatch;
    plan.leased = true;
    for (const auto& member : members) member->set_plan(plan);
  }

  std::unique_ptr<WorkStream> stream(std::size_t member) {
    return make_leased_stream(small_dataset(), small_sampler(), *members[member]);
  }

  net::EventLoop loop{"workers"};
  std::unique_ptr<master::Master> master;
  std::vector<std::unique_ptr<cluster::Membership>> members;
};

/// Takes all the work there is, and returns its units.
std::vector<std::uint64_t> drain(WorkStream& stream) {
  std::vector<std::uint64_t> units;
  for (Step step = 0;; ++step) {
    auto work = stream.next(step);
    if (!work) return units;
    if (work->idle) continue;
    EXPECT_EQ(work->items.size(), 1);
    units.push_back(work->step * kStreamLanes + work->lanes.first);
    stream.finish(std::move(*work));
  }
}

TEST_F(LeasedStreamTest, OneWorkerDoesEveryUnitOnce) {
  start(1, {.steps = 5});
  const auto work = stream(0);
  const std::vector<std::uint64_t> units = drain(*work);
  EXPECT_EQ(units.size(), 5 * kStreamLanes);
  EXPECT_EQ(std::set(units.begin(), units.end()).size(), 5 * kStreamLanes);
  EXPECT_EQ(work->finished_units(), 5 * kStreamLanes);
}

TEST_F(LeasedStreamTest, TwoWorkersShareTheUnitsWithoutDoingAnyTwice) {
  start(2, {.steps = 10});
  std::vector<std::vector<std::uint64_t>> units(2);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] {
        const auto work = stream(i);
        units[i] = drain(*work);
      });
    }
  }
  std::set<std::uint64_t> all(units[0].begin(), units[0].end());
  all.insert(units[1].begin(), units[1].end());
  EXPECT_EQ(units[0].size() + units[1].size(), 10 * kStreamLanes);
  EXPECT_EQ(all.size(), 10 * kStreamLanes);
}

TEST_F(LeasedStreamTest, UnitsOfAStreamThatWasClosedAreGivenOutAgain) {
  start(1, {.steps = 2, .elastic = true});
  std::uint64_t done = 0;
  {
    const auto first = stream(0);
    auto work = first->next(0);
    done = work->step * kStreamLanes + work->lanes.first;
    first->finish(std::move(*work));
    first->close();
  }
  EXPECT_TRUE(members[0]->regroup("the stream was closed"));
  const auto second = stream(0);
  const std::vector<std::uint64_t> units = drain(*second);
  EXPECT_EQ(units.size(), 2 * kStreamLanes - 1);
  EXPECT_THAT(units, Each(::testing::Ne(done)));
}

TEST_F(LeasedStreamTest, AWorkerIsToldOnceThatThereIsNothingToDoForNow) {
  start(2, {.steps = 1});
  const auto busy = stream(1);
  auto held = busy->next(0);
  ASSERT_TRUE(held);
  const auto other = stream(0);
  auto work = other->next(0);
  while (work && !work->idle) {
    other->finish(std::move(*work));
    work = other->next(0);
  }
  ASSERT_TRUE(work) << "a unit is in progress: it is not over";
  busy->finish(std::move(*held));
  const std::jthread rest([&] { drain(*busy); });
  EXPECT_FALSE(other->next(0)) << "not told again";
}

TEST_F(LeasedStreamTest, ChiefSavesWhenNoUnitIsInProgress) {
  start(1, {.steps = 4, .pause_every = 2});
  const auto work = stream(0);
  std::vector<std::uint64_t> before_save;
  int saves = 0;
  for (Step step = 0;; ++step) {
    auto next = work->next(step);
    if (!next) break;
    if (next->pause) {
      EXPECT_EQ(next->step, 2u);
      ++saves;
      work->pass();
      continue;
    }
    if (next->idle) continue;
    if (saves == 0) before_save.push_back(next->step);
    work->finish(std::move(*next));
  }
  EXPECT_EQ(saves, 1);  // after step 2; at the end there is nothing to go on with
  EXPECT_EQ(before_save.size(), 2 * kStreamLanes);
  EXPECT_THAT(before_save, Each(::testing::Lt(2)));
}

}  // namespace
}  // namespace trireme
