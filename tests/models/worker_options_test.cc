#include "cli/flags/worker_options.h"

#include <gtest/gtest.h>

namespace trireme::cli {
namespace {

/// What a worker makes of the flags that the launcher hands it.
TrainOptions handed_to(Rank rank, const TrainFlags& flags) {
  return to_options(nlohmann::json(flags).get<TrainFlags>(), rank);
}

TEST(WorkerOptions, SayHowLongAndOnWhat) {
  const TrainOptions options = handed_to(0, {.buffers = "broadcast",
                                             .epochs = 2,
                                             .steps = 3,
                                             .batch = 4,
                                             .accumulate = 5,
                                             .lanes = 6,
                                             .seed = 7,
                                             .threads = 8,
                                             .codec = "fp16",
                                             .log_every = 9});
  EXPECT_EQ(options.buffers, cluster::BufferPolicy::kBroadcast);
  EXPECT_EQ(options.epochs, 2);
  EXPECT_EQ(options.steps, 3);
  EXPECT_EQ(options.batch, 4);
  EXPECT_EQ(options.accumulate, 5);
  EXPECT_EQ(options.lanes, 6);
  EXPECT_EQ(options.seed, 7);
  EXPECT_EQ(options.threads, 8);
  EXPECT_EQ(options.codec.kind, codec::Kind::kF16);
  EXPECT_EQ(options.log_every, 9);
  EXPECT_EQ(options.device, torch::Device(torch::kCPU));
}

TEST(WorkerOptions, SayHowItLearns) {
  const TrainOptions options = handed_to(0, {.buffers = "own",
                                             .optimizer = "nesterov",
                                             .lr = 0.1,
                                             .momentum = 0.2,
                                             .l2 = 0.3,
                                             .clip_norm = 0.4,
                                             .clip_value = 0.5,
                                             .schedule = "linear",
                                             .warmup = 6});
  EXPECT_EQ(options.optimizer.rule, optim::Rule::kNesterov);
  EXPECT_EQ(options.lr, 0.1);
  EXPECT_EQ(options.optimizer.momentum, 0.2);
  EXPECT_EQ(options.optimizer.l2, 0.3);
  EXPECT_EQ(options.clip_norm, 0.4);
  EXPECT_EQ(options.optimizer.clip_value, 0.5);
  EXPECT_EQ(options.schedule, "linear");
  EXPECT_EQ(options.warmup, 6);
}

TEST(WorkerOptions, SayTheStrategyAndItsConsistency) {
  const TrainOptions stale = handed_to(0, {.consistency = "ssp:4", .buffers = "own", .damp_stale = true});
  EXPECT_EQ(stale.strategy, cluster::parse_strategy("ps"));
  EXPECT_EQ(stale.consistency, (ps::Consistency{.mode = ps::Consistency::Mode::kSsp, .slack = 4, .damp_stale = true}));
  const TrainOptions in_step = handed_to(0, {.consistency = "bsp", .buffers = "own", .backup_workers = 1});
  EXPECT_EQ(in_step.consistency, (ps::Consistency{.backup_workers = 1}));
  const TrainOptions local = handed_to(0, {.strategy = "local-sgd:8", .buffers = "average"});
  EXPECT_EQ(local.strategy, cluster::parse_strategy("local-sgd:8"));
  EXPECT_EQ(local.consistency, ps::Consistency{});
}

TEST(WorkerOptions, SayWhatIsWritten) {
  const TrainOptions options = handed_to(0, {.buffers = "own",
                                             .timeline = true,
                                             .checkpoint_every = "12",
                                             .keep_checkpoints = 4,
                                             .checkpoint_rate = "800mbit",
                                             .step_ms = 5,
                                             .balance = true,
                                             .trace_steps = true});
  EXPECT_EQ(options.checkpoint.every, 12);
  EXPECT_EQ(options.checkpoint.keep_last, 4);
  EXPECT_EQ(options.checkpoint.bytes_per_second, 100'000'000);
  EXPECT_EQ(options.least_step, std::chrono::milliseconds(5));
  EXPECT_TRUE(options.timeline);
  EXPECT_TRUE(options.balance);
  EXPECT_TRUE(options.trace_steps);
  EXPECT_EQ(handed_to(0, {.buffers = "own"}).checkpoint.every, std::nullopt);
}

TEST(WorkerOptions, OnlyTheWorkerNamedIsSlow) {
  EXPECT_EQ(handed_to(1, {.buffers = "own", .slow = "1:10"}).slowdown, 10);
  EXPECT_EQ(handed_to(0, {.buffers = "own", .slow = "1:10"}).slowdown, 1);
}

TEST(WorkerOptions, EachReasonToStopIsACallback) {
  EXPECT_TRUE(handed_to(0, {.buffers = "own"}).callbacks.empty());
  EXPECT_EQ(
      handed_to(0, {.buffers = "own", .time_limit = 1, .stop_at = "accuracy>=0.9", .early_stop = 2}).callbacks.size(),
      3);
}

}  // namespace
}  // namespace trireme::cli
