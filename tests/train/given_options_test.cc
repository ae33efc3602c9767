#include "train/given_options.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/expect_fails.h"

namespace trireme {
namespace {

TEST(GivenOptions, WinOverTheProgramsOwn) {
  TrainOptions options{.batch = 8, .lanes = 2, .seed = 5, .consistency = ps::parse_consistency("ssp:4")};
  set_given_options(options, "");
  EXPECT_EQ(options.batch, 8u);
  set_given_options(options,
                    R"({"batch": 64, "checkpoint-every": "50", "codec": "fp16", "keep-checkpoints": 7, "lanes": 4,
                                 "strategy": "allreduce", "threads": 3, "checkpoint-rate": "800mbit",
                                 "init": "runs/a", "init-prefix": "backbone."})");
  EXPECT_EQ(options.init, "runs/a");
  EXPECT_EQ(options.init_prefix, "backbone.");
  EXPECT_EQ(options.batch, 64u);
  EXPECT_EQ(options.lanes, 4u);
  EXPECT_EQ(options.threads, 3);
  EXPECT_EQ(options.codec.kind, codec::Kind::kF16);
  EXPECT_EQ(options.strategy.kind, cluster::StrategyChoice::Kind::kAllReduce);
  EXPECT_EQ(options.consistency, ps::Consistency{}) << "a matter of strategy ps";
  EXPECT_EQ(options.checkpoint.every, std::optional<Step>(50));
  EXPECT_EQ(options.checkpoint.keep_last, 7u);
  EXPECT_EQ(options.checkpoint.bytes_per_second, 100'000'000u);
  EXPECT_EQ(options.seed, 5u) << "what was not given is the program's";
}

TEST(GivenOptions, ConsistencyIsThatOfTheStrategyWhicheverComesFirst) {
  TrainOptions options;
  set_given_options(options, R"({"consistency": "asp", "strategy": "ps"})");
  EXPECT_EQ(options.consistency.mode, ps::parse_consistency("asp").mode);
}

TEST(GivenOptions, UnknownOrInvalidOnesAreNamed) {
  TrainOptions options;
  EXPECT_FAILS(set_given_options(options, R"({"lane": 4})"), InvalidArgument, "no option 'lane'");
  EXPECT_FAILS(set_given_options(options, R"({"lanes": "many"})"), InvalidArgument, "TRIREME_TRAIN_OPTIONS");
  EXPECT_FAILS(set_given_options(options, "lanes=4"), InvalidArgument, "TRIREME_TRAIN_OPTIONS");
}

}  // namespace
}  // namespace trireme
