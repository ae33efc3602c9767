// What was written is what is read.

#include <thread>

#include "base/error.h"
#include "checkpoint/verify.h"
#include "tests/checkpoint/testing.h"
#include "tests/support/expect_fails.h"

namespace trireme::checkpoint {
namespace {

class RoundTrip : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(RoundTrip, TensorsSplitAnywhereAreRestored) {
  const TempFolder folder;
  for (Step step = 1; step <= 3; ++step) {
    const State state = make_state(step);
    const WriteReport report = write_parts(folder.path(), state, step, GetParam());
    ASSERT_TRUE(report.complete) << report.problem;
    EXPECT_EQ(report.problem, "");
    const Checkpoint checkpoint = Checkpoint::open(step_path(folder.path(), step));
    EXPECT_EQ(checkpoint.step(), step);
    EXPECT_EQ(checkpoint.manifest().parts.size(), GetParam());
    expect_holds(checkpoint, state);
    EXPECT_TRUE(verify(step_path(folder.path(), step)).sound());
    EXPECT_EQ(verify(step_path(folder.path(), step)).bytes, checkpoint.bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, RoundTrip, ::testing::Values(1, 2, 3, 4));

TEST(Reading, ReadsAnyRangeOfATensor) {
  const TempFolder folder;
  const State state = make_state(7);
  ASSERT_TRUE(write_parts(folder.path(), state, 5, 3).complete);
  const Checkpoint checkpoint = Checkpoint::open(step_path(folder.path(), 5));
  RandomStream random(11);
  for (int round = 0; round < 200; ++round) {
    const std::size_t tensor = random.below(state.tensors.size());
    const std::size_t size = state.bytes[tensor].size();
    const std::size_t begin = random.below(size + 1);
    std::vector<std::byte> read(random.below(size - begin + 1));
    checkpoint.read(state.tensors[tensor].name, begin, read);
    ASSERT_TRUE(std::ranges::equal(read, Bytes(state.bytes[tensor]).subspan(begin, read.size())));
  }
  std::vector<std::byte> much(8);
  EXPECT_FAILS(checkpoint.read("optimizer/steps", 1, much), InvalidArgument, "has 8 bytes");
  EXPECT_FAILS(checkpoint.read("optimizer/steps", ~0ull, much), InvalidArgument, "has 8 bytes");
  EXPECT_FAILS(checkpoint.read("model/fc.weigth"), InvalidArgument, "did you mean 'model/fc.weight'");
  EXPECT_EQ(checkpoint.find("nothing"), nullptr);
}

TEST(Reading, BySeveralThreadsAtATime) {
  const TempFolder folder;
  const State state = make_state(7);
  ASSERT_TRUE(write_parts(folder.path(), state, 5, 2).complete);
  const Checkpoint checkpoint = Checkpoint::open(step_path(folder.path(), 5));
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { expect_holds(checkpoint, state); });
}

TEST(Reading, ContinuesWhenTheFolderIsRemoved) {
  const TempFolder folder;
  const State state = make_state(7);
  ASSERT_TRUE(write_parts(folder.path(), state, 5, 2).complete);
  const Checkpoint checkpoint = Checkpoint::open(step_path(folder.path(), 5));
  std::filesystem::remove_all(step_path(folder.path(), 5));
  expect_holds(checkpoint, state);
}

TEST(RoundTripOfEmptyState, IsACompleteCheckpoint) {
  const TempFolder folder;
  const State state{.meta = {{"updates", 0}}};
  ASSERT_TRUE(write_parts(folder.path(), state, 0, 2).complete);
  expect_holds(Checkpoint::open(step_path(folder.path(), 0)), state);
}

TEST(RoundTripOfMeta, KeepsAnyJson) {
  const TempFolder folder;
  State state = small_state(1);
  for (const nlohmann::json& meta : {nlohmann::json(), nlohmann::json(3.5), nlohmann::json("käse\n"),
                                     nlohmann::json::parse(R"({"a":[1,{"b":null}]})")}) {
    state.meta = meta;
    std::filesystem::remove_all(step_path(folder.path(), 1));
    ASSERT_TRUE(write_state({.folder = folder.path()}, state, 1).complete);
    EXPECT_EQ(Checkpoint::open(step_path(folder.path(), 1)).meta(), meta);
  }
}

}  // namespace
}  // namespace trireme::checkpoint
