// A chunk of a job that clips: gradients are weighed, and applied when the norm of all chunks is known.

#include <cmath>
#include <deque>
#include <optional>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/exact_sum.h"
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
      .update = {}, .consistency = {}, .lanes = 2, .clips = true, .pool = std::make_shared<net::BufferPool>()};
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

}  // namespace
}  // namespace trireme::ps
