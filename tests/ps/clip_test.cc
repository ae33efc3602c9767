// A chunk of a job that clips: gradients are weighed, and applied when the norm of all chunks is known.

#include <cmath>
#include <deque>
#include <optional>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/numbers/exact_sum.h"
#include "net/buffer_pool.h"
#include "ps/chunk.h"
#include "tests/support/expect_fails.h"

namespace trireme::ps {
namespace {

struct ClipAnswer final : ChunkWaiter {
  std::optional<StepOutcome> outcome;
  std::optional<RoundWeight> weight;
  std::string refused;
  void chunk_done(const StepOutcome& given) override { outcome = given; }
  void chunk_weighed(const RoundWeight& given) override { weight = given; }
  void chunk_refused(const std::exception& reason) override { refused = reason.what(); }

  double squares() const { return weight ? ExactSum::from_words(weight->squares).value() : -1; }
};

/// A chunk of plain SGD at a rate of 1, for two workers with a lane each; in view 1.
struct ClippedChunk {
  ClippedChunk() { chunk.enter(view, 2, {}); }

  std::shared_ptr<ClipAnswer> push(Rank worker, Step step, std::vector<float> gradient, double samples = 1) {
    gradients.push_back(std::move(gradient));
    auto answer = std::make_shared<ClipAnswer>();
    chunk.push({.view = view,
                .worker = worker,
                .info = {.step = step, .lanes = {worker, 1}, .samples = samples, .lr = 1},
                .gradient = gradients.back().data(),
                .waiter = answer});
    return answer;
  }

  std::shared_ptr<ClipAnswer> apply(Rank worker, Step step, double factor) {
    auto answer = std::make_shared<ClipAnswer>();
    chunk.apply_weighed({.view = view, .worker = worker, .info = {.step = step}, .waiter = answer}, factor);
    return answer;
  }

  ChunkPolicy policy{
      .update = {}, .consistency = {}, .lanes = 2, .weighs = true, .pool = std::make_shared<net::BufferPool>()};
  View view = 1;
  std::deque<std::vector<float>> gradients;
  std::vector<float> parameters = {10, 10};
  std::atomic<std::uint64_t> word{0};
  Chunk chunk{policy, {}, parameters, &word};
};

TEST(ClippedChunk, NothingIsAppliedBeforeTheFactorIsKnown) {
  ClippedChunk clipped;
  const auto first = clipped.push(0, 0, {1, 2});
  EXPECT_FALSE(first->weight);
  const auto second = clipped.push(1, 0, {2, 2}, 3);
  EXPECT_EQ(first->squares(), 25);  // of the sum, 3 and 4
  EXPECT_EQ(second->squares(), 25);
  EXPECT_EQ(second->weight->samples, 4);
  EXPECT_EQ(clipped.parameters, (std::vector<float>{10, 10}));

  const auto applied = clipped.apply(1, 0, 0.5);
  ASSERT_TRUE(applied->outcome);
  EXPECT_EQ(applied->outcome->newest, 1u);
  EXPECT_EQ(clipped.parameters, (std::vector<float>{10 - 0.375f, 10 - 0.5f}));
  EXPECT_EQ(clipped.apply(0, 0, 0.5)->outcome->newest, 1u);
  EXPECT_EQ(clipped.parameters, (std::vector<float>{10 - 0.375f, 10 - 0.5f})) << "applied twice";
}

TEST(ClippedChunk, AStepThatWasMadeStillTellsItsWeight) {
  ClippedChunk clipped;
  clipped.push(0, 0, {1, 2});
  clipped.push(1, 0, {2, 2});
  clipped.apply(0, 0, 1);
  const auto after = clipped.parameters;
  clipped.chunk.enter(++clipped.view, 2, {});  // other chunks did not make the step: all push it again
  EXPECT_EQ(clipped.push(0, 0, {1, 2})->squares(), 25);
  EXPECT_EQ(clipped.push(1, 0, {2, 2})->squares(), 25);
  EXPECT_EQ(clipped.apply(0, 0, 1)->outcome->newest, 1u);
  EXPECT_EQ(clipped.parameters, after);
  EXPECT_EQ(clipped.chunk.state().first.weight.samples, 2) << "so must a replica";
}

TEST(ClippedChunk, AViewThatEndsForgetsWhatWasWeighed) {
  ClippedChunk clipped;
  clipped.push(0, 0, {1, 2});
  clipped.push(1, 0, {2, 2});
  clipped.chunk.enter(++clipped.view, 2, {});
  EXPECT_FAILS(clipped.apply(0, 0, 1), InvalidArgument, "has not been weighed");
  EXPECT_FALSE(clipped.push(0, 0, {5, 5})->weight);
  EXPECT_EQ(clipped.push(1, 0, {1, 3})->squares(), 36 + 64);
  clipped.apply(0, 0, 1);
  EXPECT_EQ(clipped.parameters, (std::vector<float>{10 - 3, 10 - 4}));
}

TEST(ClippedChunk, AGradientThatIsSentAgainIsWeighedOnce) {
  ClippedChunk clipped;
  clipped.push(0, 0, {1, 2});
  clipped.push(1, 0, {2, 2});
  EXPECT_EQ(clipped.push(0, 0, {1, 2})->squares(), 25) << "over another connection";
  clipped.apply(0, 0, 1);
  EXPECT_EQ(clipped.parameters, (std::vector<float>{10 - 1.5f, 10 - 2}));
}

TEST(ClippedChunk, WhatCannotBeIsRefused) {
  ClippedChunk clipped;
  EXPECT_FAILS(clipped.apply(0, 0, 1), InvalidArgument, "has not been weighed");
  EXPECT_FAILS(clipped.apply(0, 7, 1), InvalidArgument, "has not been pushed");
  EXPECT_FAILS(clipped.apply(2, 0, 1), InvalidArgument, "worker 2");
  for (const double factor : {0.0, -1.0, 1.5, double{NAN}})
    EXPECT_FAILS(clipped.apply(0, 0, factor), InvalidArgument, "times");
}

TEST(ClippedChunk, AStepCanBeLeftOut) {
  ClippedChunk clipped;
  clipped.policy.skips = true;
  EXPECT_TRUE(std::isnan((clipped.push(0, 0, {1, INFINITY}), clipped.push(1, 0, {2, -INFINITY}))->squares()));
  EXPECT_EQ(clipped.apply(0, 0, kLeaveOut)->outcome->newest, 1u);
  EXPECT_EQ(clipped.apply(1, 0, kLeaveOut)->outcome->newest, 1u);
  EXPECT_EQ(clipped.parameters, (std::vector<float>{10, 10}));
  EXPECT_EQ(clipped.chunk.state().first.updates, 0u) << "the rule has not seen it";
  clipped.push(0, 1, {1, 2});
  clipped.push(1, 1, {1, 2});
  clipped.apply(0, 1, 1);
  EXPECT_EQ(clipped.parameters, (std::vector<float>{9, 8}));
  EXPECT_EQ(clipped.chunk.state().first.updates, 1u);
}

// The table of a loss scale is what the server makes of it, step by step.
TEST(ClippedChunk, ALossScaleKnowsWhatWasLeftOut) {
  ClippedChunk clipped;
  clipped.policy.skips = true;
  std::vector<float> scale{8, 0, 0};
  std::atomic<std::uint64_t> word{0};
  Chunk chunk(clipped.policy, {.sums = true, .scale_growth = 2}, scale, &word);
  chunk.enter(1, 1, {});
  const std::vector<float> nothing(3);
  Step step = 0;
  const auto make = [&](double factor) {
    const auto answer = std::make_shared<ClipAnswer>();
    chunk.push({.view = 1,
                .info = {.step = step, .lanes = {0, 2}, .samples = 4, .lr = 1},
                .gradient = nothing.data(),
                .waiter = answer});
    chunk.apply_weighed({.view = 1, .info = {.step = step++}, .waiter = answer}, factor);
    return optim::LossScale::from(scale);
  };
  EXPECT_EQ(make(1), (optim::LossScale{.scale = 8, .good = 1}));
  EXPECT_EQ(make(0.5), (optim::LossScale{.scale = 16, .good = 0}));
  EXPECT_EQ(make(kLeaveOut), (optim::LossScale{.scale = 8, .good = 0, .skipped = 1}));
  EXPECT_EQ(chunk.state().first.version, 3u);
}

}  // namespace
}  // namespace trireme::ps
