#include "trireme/sampler.h"

#include <algorithm>
#include <limits>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/numbers/lanes.h"
#include "support.h"

namespace trireme::data {
namespace {

using Indices = std::vector<std::uint64_t>;

/// All samples of a step, lane after lane.
Indices whole_step(const Sampler& sampler, Step step) {
  Indices all;
  for (Lane lane = 0; lane < sampler.config().lanes; ++lane) {
    const Indices part = sampler.indices(step, lane);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST(SamplerPlan, EachSampleOncePerEpochForManyShapes) {
  for (const std::uint64_t samples : {1, 2, 3, 7, 16, 61, 100}) {
    for (std::uint64_t batch = 1; batch <= samples; batch += batch < 9 ? 1 : 13) {
      for (Lane lanes = 1; lanes <= std::min<std::uint64_t>(batch, 9); ++lanes) {
        for (const bool shuffle : {true, false}) {
          const Sampler sampler({.samples = samples, .batch = batch, .lanes = lanes, .seed = 3, .shuffle = shuffle});
          const std::uint64_t steps = sampler.steps_per_epoch();
          for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
            std::vector<int> seen(samples);
            for (Step step = epoch * steps; step < (epoch + 1) * steps; ++step) {
              ASSERT_EQ(sampler.epoch_of(step), epoch);
              const Indices indices = whole_step(sampler, step);
              ASSERT_EQ(indices.size(), sampler.batch_size(step));
              for (const std::uint64_t index : indices) ++seen.at(index);
            }
            ASSERT_THAT(seen, testing::Each(1)) << samples << " samples, batch " << batch << ", lanes " << lanes;
          }
        }
      }
    }
  }
}

TEST(SamplerPlan, LanesTogetherAreTheBatch) {
  const SamplerConfig config{.samples = 103, .batch = 16, .lanes = 1, .seed = 5};
  const Sampler one(config);
  for (const Lane lanes : {2, 3, 4, 16}) {
    SamplerConfig cut = config;
    cut.lanes = lanes;
    const Sampler many(cut);
    for (Step step = 0; step < 3 * one.steps_per_epoch(); ++step)
      EXPECT_EQ(whole_step(many, step), one.indices(step, 0));
  }
}

TEST(SamplerPlan, SamplesDoNotDependOnTheNumberOfWorkers) {
  const SamplerConfig config{.samples = 103, .batch = 16, .lanes = 8, .seed = 5};
  const Sampler reference(config);
  for (std::uint32_t workers = 1; workers <= config.lanes; ++workers) {
    std::vector<std::vector<int>> seen(2, std::vector<int>(config.samples));
    for (const LaneRange& mine : deal_lanes(config.lanes, workers)) {
      const Sampler sampler(config);  // each worker has its own
      for (Step step = 0; step < 2 * sampler.steps_per_epoch(); ++step) {
        for (Lane lane = mine.first; lane < mine.end(); ++lane) {
          const Indices indices = sampler.indices(step, lane);
          ASSERT_EQ(indices, reference.indices(step, lane)) << workers << " workers, step " << step;
          for (const std::uint64_t index : indices) ++seen[sampler.epoch_of(step)][index];
        }
      }
    }
    for (const auto& epoch : seen) EXPECT_THAT(epoch, testing::Each(1)) << workers << " workers";
  }
}

TEST(SamplerPlan, DoesNotDependOnEarlierCalls) {
  const SamplerConfig config{.samples = 50, .batch = 8, .lanes = 2, .seed = 9};
  const Sampler forward(config);
  const Sampler jumping(config);
  const Indices later = jumping.indices(40, 1);
  EXPECT_EQ(jumping.indices(0, 0), forward.indices(0, 0));
  for (Step step = 0; step < 40; ++step) forward.indices(step, 0);
  EXPECT_EQ(forward.indices(40, 1), later);
}

TEST(SamplerPlan, ShufflesByEpochAndSeed) {
  const SamplerConfig config{.samples = 64, .batch = 64, .lanes = 1, .seed = 1};
  SamplerConfig other = config;
  other.seed = 2;
  SamplerConfig ordered = config;
  ordered.shuffle = false;
  const Sampler sampler(config);
  EXPECT_NE(sampler.indices(0, 0), sampler.indices(1, 0));
  EXPECT_NE(sampler.indices(0, 0), Sampler(other).indices(0, 0));
  EXPECT_EQ(Sampler(ordered).indices(1, 0), first_indices(64));
}

TEST(SamplerPlan, LastBatchIsKeptAndMayLeaveLanesEmpty) {
  const Sampler sampler({.samples = 9, .batch = 4, .lanes = 4});
  EXPECT_EQ(sampler.steps_per_epoch(), 3u);
  EXPECT_EQ(sampler.batch_size(1), 4u);
  EXPECT_EQ(sampler.batch_size(2), 1u);
  EXPECT_EQ(sampler.indices(2, 0).size(), 1u);
  EXPECT_TRUE(sampler.indices(2, 3).empty());
  EXPECT_EQ(sampler.batch_size(3), 4u);
}

TEST(SamplerPlan, SurvivesTheLargestNumbers) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const Sampler sampler({.samples = kMost, .batch = 10, .lanes = 3, .shuffle = false});
  EXPECT_EQ(sampler.steps_per_epoch(), kMost / 10 + 1);
  EXPECT_EQ(sampler.epoch_of(kMost), 9u);
  const Step last = sampler.steps_per_epoch() - 1;
  EXPECT_EQ(sampler.batch_size(last), 5u);
  EXPECT_EQ(sampler.indices(last, 2), (Indices{kMost - 1}));
  const Sampler small({.samples = 7, .batch = 7, .lanes = 1});
  EXPECT_EQ(small.epoch_of(kMost), kMost);
  EXPECT_EQ(small.indices(kMost, 0).size(), 7u);
}

TEST(SamplerPlan, IsThreadSafe) {
  const SamplerConfig config{.samples = 200, .batch = 10, .lanes = 2, .seed = 4};
  const Sampler shared(config);
  std::vector<std::vector<Indices>> results(4);
  {
    std::vector<std::jthread> threads;
    for (auto& result : results) {
      threads.emplace_back([&] {
        for (Step step = 0; step < 100; ++step) result.push_back(shared.indices(step, step % 2));
      });
    }
  }
  const Sampler alone(config);
  for (const auto& result : results) {
    for (Step step = 0; step < 100; ++step) ASSERT_EQ(result[step], alone.indices(step, step % 2));
  }
}

TEST(SamplerPlan, RefusesBadConfigs) {
  EXPECT_FAILS(Sampler({.samples = 0, .batch = 1}), InvalidArgument, "no samples");
  EXPECT_FAILS(Sampler({.samples = 10, .batch = 0}), InvalidArgument, "batch of 0", "--batch");
  EXPECT_FAILS(Sampler({.samples = 10, .batch = 4, .lanes = 0}), InvalidArgument, "0 lanes", "--lanes");
  EXPECT_FAILS(Sampler({.samples = 10, .batch = 4, .lanes = 5}), InvalidArgument, "more lanes than samples in a batch",
               "at most 4");
  EXPECT_FAILS(Sampler({.samples = 10, .batch = 4, .lanes = 11}), InvalidArgument, "more lanes than samples",
               "at most 10");
  EXPECT_FAILS(Sampler({.samples = 10, .batch = 11}), InvalidArgument, "batch of 11", "larger than the data",
               "at most 10");
  EXPECT_FAILS(Sampler({.samples = std::uint64_t{1} << 60, .batch = 1}), InvalidArgument, "too many to shuffle");
  EXPECT_FAILS(Sampler({.samples = 10, .batch = 4, .lanes = 2}).indices(3, 2), InvalidArgument, "no lane 2", "below 2");
}

// ---- Lanes with parts of their own.

std::vector<std::uint64_t> epoch_of_lane(const Sampler& sampler, std::uint64_t epoch, Lane lane) {
  std::vector<std::uint64_t> seen;
  for (Step step = epoch * sampler.steps_per_epoch(); step < (epoch + 1) * sampler.steps_per_epoch(); ++step) {
    for (const std::uint64_t index : sampler.indices(step, lane)) seen.push_back(index);
  }
  return seen;
}

TEST(Sharding, EachLaneSeesItsOwnPartOncePerEpoch) {
  for (const char* const how : {"blocks", "round-robin", "proportional:5,1,2"}) {
    for (const bool shuffle : {false, true}) {
      const Sampler sampler(
          {.samples = 103, .batch = 10, .lanes = 3, .seed = 3, .shuffle = shuffle, .sharding = Sharding::parse(how)});
      std::set<std::uint64_t> all;
      for (Lane lane = 0; lane < 3; ++lane) {
        const auto first = epoch_of_lane(sampler, 0, lane);
        const auto second = epoch_of_lane(sampler, 1, lane);
        const std::set<std::uint64_t> part(first.begin(), first.end());
        EXPECT_EQ(part.size(), first.size()) << how;
        EXPECT_EQ(part, std::set<std::uint64_t>(second.begin(), second.end())) << how << ": the same part each epoch";
        EXPECT_EQ(first == second, !shuffle) << how;
        all.insert(first.begin(), first.end());
      }
      EXPECT_EQ(all.size(), 103u) << how;
    }
  }
}

TEST(Sharding, ABatchIsWhatItsLanesRead) {
  const Sampler sampler({.samples = 103, .batch = 10, .lanes = 3, .sharding = Sharding::parse("proportional:5,1,2")});
  std::uint64_t total = 0;
  for (Step step = 0; step < sampler.steps_per_epoch(); ++step) {
    std::uint64_t samples = 0;
    for (Lane lane = 0; lane < 3; ++lane) samples += sampler.indices(step, lane).size();
    EXPECT_EQ(sampler.batch_size(step), samples);
    EXPECT_NEAR(static_cast<double>(samples), 103.0 / 11, 3);
    total += samples;
  }
  EXPECT_EQ(total, 103u);
}

TEST(Sharding, PartsAreThoseOfThePlan) {
  const Sampler blocks(
      {.samples = 10, .batch = 4, .lanes = 2, .shuffle = false, .sharding = Sharding::parse("blocks")});
  EXPECT_EQ(epoch_of_lane(blocks, 0, 1), (std::vector<std::uint64_t>{5, 6, 7, 8, 9}));
  const Sampler turns(
      {.samples = 10, .batch = 4, .lanes = 2, .shuffle = false, .sharding = Sharding::parse("round-robin")});
  EXPECT_EQ(epoch_of_lane(turns, 0, 1), (std::vector<std::uint64_t>{1, 3, 5, 7, 9}));
}

TEST(Sharding, WrongRequestsAreRefused) {
  EXPECT_FAILS(Sharding::parse("block"), InvalidArgument, "did you mean 'blocks'", "round-robin");
  EXPECT_FAILS(Sharding::parse("proportional:1,x"), InvalidArgument, "'x'");
  EXPECT_FAILS(Sharding::parse("proportional:1,-2"), InvalidArgument, "'-2'");
  EXPECT_FAILS(Sharding::parse("proportional:"), InvalidArgument, "positive weight");
  EXPECT_FAILS(Sampler({.samples = 10, .batch = 4, .lanes = 2, .sharding = Sharding::parse("proportional:1,2,3")}),
               InvalidArgument, "3 weights for 2 lanes");
}

}  // namespace
}  // namespace trireme::data
