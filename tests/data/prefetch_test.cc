#include "data/prefetch.h"

#include <pthread.h>

#include <atomic>
#include <latch>
#include <set>

#include "trireme/sampler.h"
#include "trireme/sources.h"

#include "base/error.h"
#include "support.h"

namespace trireme::data {
namespace {

/// Sample i is the number i. A test may hook into each read.
class Counting : public Dataset {
 public:
  explicit Counting(std::function<void(std::uint64_t first_index)> hook = nullptr)
      : Dataset(Schema{{.name = "number"}}), hook_(std::move(hook)) {}

  std::uint64_t size() const override { return 1000; }
  std::string describe() const override { return "counting"; }

 private:
  void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t /*epoch*/) const override {
    if (hook_ && !indices.empty()) hook_(indices.front());
    out.make_room(schema(), indices.size());
    std::ranges::copy(indices, out.values<float>(0).begin());
  }

  std::function<void(std::uint64_t)> hook_;
};

/// Steps 0..count-1 of one sample each: the sample is the step.
Prefetcher::Producer steps(Step count) {
  return [count, step = Step{0}](const std::stop_token&) mutable -> std::optional<Work> {
    if (step == count) return std::nullopt;
    return Work{.step = step, .lane = 0, .indices = {step++}};
  };
}

/// Waits, as a producer that hears nothing from its master would, until it is stopped.
std::optional<Work> wait_for_stop(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  changed.wait(lock, stop, [] { return false; });
  return std::nullopt;
}

TEST(Prefetch, ReadsIntoTheMemoryItIsGiven) {
  std::atomic<int> given = 0;
  std::vector<std::byte> memory(1024);
  const auto allocate = [&](std::size_t bytes) {
    EXPECT_LE(bytes, memory.size());
    ++given;
    return std::shared_ptr<std::byte>(memory.data(), [](std::byte*) {});
  };
  Prefetcher prefetcher(std::make_shared<Counting>(), steps(3), 1, allocate);
  for (int step = 0; step < 3; ++step) {
    std::optional<Item> item = prefetcher.next(Deadline::in(30s));
    ASSERT_TRUE(item.has_value());
    EXPECT_EQ(item->batch.bytes(0).data(), memory.data());
    prefetcher.recycle(std::move(item->batch));
  }
  EXPECT_GE(given, 1);
}

TEST(Prefetch, DeliversInOrderThenEnds) {
  for (const std::size_t depth : {1, 2, 5, 100}) {
    Prefetcher prefetcher(std::make_shared<Counting>(), steps(20), depth);
    for (Step step = 0; step < 20; ++step) {
      const std::optional<Item> item = prefetcher.next(Deadline::in(30s));
      ASSERT_TRUE(item.has_value());
      EXPECT_EQ(item->work.step, step);
      EXPECT_EQ(features(item->batch), (std::vector<float>{static_cast<float>(step)}));
    }
    EXPECT_FALSE(prefetcher.next(Deadline::in(30s)).has_value());
    EXPECT_FALSE(prefetcher.next(Deadline::in(30s)).has_value());
  }
}

TEST(Prefetch, FollowsASamplerThroughEmptyLanes) {
  const auto dataset = make_synthetic({.train_samples = 9}).train;
  const Sampler sampler({.samples = 9, .batch = 4, .lanes = 4});
  const std::uint64_t units = sampler.steps_per_epoch() * 4;
  Prefetcher prefetcher(dataset, [&, unit = std::uint64_t{0}](const std::stop_token&) mutable -> std::optional<Work> {
    if (unit == units) return std::nullopt;
    const Step step = unit / 4;
    const auto lane = static_cast<Lane>(unit++ % 4);
    return Work{.step = step, .lane = lane, .indices = sampler.indices(step, lane)};
  });
  std::size_t samples = 0;
  while (std::optional<Item> item = prefetcher.next(Deadline::in(30s))) {
    EXPECT_EQ(item->batch.size(), item->work.indices.size());
    EXPECT_EQ(features(item->batch).size(), item->batch.size() * 784);
    samples += item->batch.size();
    prefetcher.recycle(std::move(item->batch));
  }
  EXPECT_EQ(samples, 9u);
}

TEST(Prefetch, ReadsAheadOnItsNamedThreadUpToItsDepth) {
  std::latch ahead(3);  // two in the ring; a third read begins only when one was taken
  std::atomic<int> reads = 0;
  std::string name(16, '\0');
  const auto dataset = std::make_shared<Counting>([&](std::uint64_t) {
    if (++reads == 1) ::pthread_getname_np(::pthread_self(), name.data(), name.size());
    if (reads <= 3) ahead.count_down();
  });
  Prefetcher prefetcher(dataset, steps(100), 2);
  EXPECT_TRUE(prefetcher.next(Deadline::in(30s)).has_value());
  ahead.wait();
  EXPECT_LE(reads, 3);
  EXPECT_STREQ(name.c_str(), "prefetch");
}

TEST(Prefetch, RecyclesBuffers) {
  Prefetcher prefetcher(std::make_shared<Counting>(), steps(500), 3);
  std::set<const float*> buffers;
  while (std::optional<Item> item = prefetcher.next(Deadline::in(30s))) {
    buffers.insert(item->batch.values<float>(0).data());
    prefetcher.recycle(std::move(item->batch));
  }
  EXPECT_LE(buffers.size(), 5u);  // in the ring, with the thread, with us
}

TEST(Prefetch, RethrowsReadErrorsAfterEarlierItems) {
  const auto dataset = std::make_shared<Counting>([](std::uint64_t index) {
    if (index == 2) fail<IoError>("the disk is gone");
  });
  Prefetcher prefetcher(dataset, steps(5), 4);
  EXPECT_EQ(prefetcher.next(Deadline::in(30s))->work.step, 0u);
  EXPECT_EQ(prefetcher.next(Deadline::in(30s))->work.step, 1u);
  EXPECT_FAILS(prefetcher.next(Deadline::in(30s)), IoError, "the disk is gone");
  EXPECT_FAILS(prefetcher.next(Deadline::in(30s)), IoError, "the disk is gone");
}

TEST(Prefetch, PassesOnWhatTheProducerThrew) {
  Prefetcher prefetcher(std::make_shared<Counting>(),
                        [](const std::stop_token&) -> std::optional<Work> { fail<PeerLost>("the master is gone"); });
  EXPECT_FAILS(prefetcher.next(Deadline::in(30s)), PeerLost, "the master is gone");
}

TEST(Prefetch, PassesOnABadIndex) {
  Prefetcher prefetcher(std::make_shared<Counting>(),
                        [](const std::stop_token&) { return Work{.step = 0, .lane = 0, .indices = {1000}}; });
  EXPECT_FAILS(prefetcher.next(Deadline::in(30s)), InvalidArgument, "sample 1000", "counting");
}

TEST(Prefetch, TimeoutSaysThatTheProducerIsSilent) {
  Prefetcher prefetcher(std::make_shared<Counting>(), wait_for_stop);
  EXPECT_FAILS(prefetcher.next(Deadline::in(5ms)), Timeout, "no batch within 5 ms", "waits to be told");
}

TEST(Prefetch, TimeoutNamesThePendingReadAndLosesNothing) {
  std::latch started(1);
  std::latch allowed(1);
  const auto dataset = std::make_shared<Counting>([&](std::uint64_t) {
    started.count_down();
    allowed.wait();
  });
  Prefetcher prefetcher(dataset, steps(1));
  started.wait();
  EXPECT_FAILS(prefetcher.next(Deadline::in(5ms)), Timeout, "no batch within 5 ms",
               "reading step 0, lane 0 from counting");
  allowed.count_down();
  EXPECT_EQ(prefetcher.next(Deadline::in(30s))->work.step, 0u);
}

TEST(Prefetch, StopsWhileItsRingIsFull) {
  std::latch full(1);
  const auto dataset = std::make_shared<Counting>([&](std::uint64_t index) {
    if (index == 1) full.count_down();
  });
  const Deadline limit = Deadline::in(10s);
  {
    const Prefetcher prefetcher(dataset, steps(1000), 2);
    full.wait();
  }
  EXPECT_FALSE(limit.passed());
}

TEST(Prefetch, StopsWhileItsProducerWaits) {
  std::latch waiting(1);
  const Deadline limit = Deadline::in(10s);
  {
    const Prefetcher prefetcher(std::make_shared<Counting>(), [&](const std::stop_token& stop) {
      waiting.count_down();
      return wait_for_stop(stop);
    });
    waiting.wait();
  }
  EXPECT_FALSE(limit.passed());
}

TEST(Prefetch, StopsRightAfterItsStart) {
  for (int i = 0; i < 50; ++i) const Prefetcher prefetcher(std::make_shared<Counting>(), steps(1000), 1);
}

TEST(Prefetch, RefusesDepthZero) {
  EXPECT_FAILS(Prefetcher(std::make_shared<Counting>(), steps(1), 0), InvalidArgument, "depth of 0");
}

}  // namespace
}  // namespace trireme::data
