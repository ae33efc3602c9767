// The writer beside training: it skips, waits, keeps to its rate, and says what went wrong.

#include <cmath>
#include <future>
#include <limits>

#include "base/error.h"
#include "tests/checkpoint/faulty_file_system.h"
#include "tests/checkpoint/testing.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"

namespace trireme::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Writer, CreatesNothingUntilAsked) {
  const TempFolder folder;
  Writer writer({.folder = folder / "checkpoints"});
  EXPECT_FALSE(writer.busy());
  EXPECT_EQ(writer.finish(Deadline::in(1s)), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(folder / "checkpoints"));
}

TEST(Writer, ReportsWhatItDid) {
  const TempFolder folder;
  std::vector<WriteReport> reports;
  const State state = make_state(1);
  {
    Writer writer(
        {.folder = folder / "checkpoints", .on_done = [&](const auto& report) { reports.push_back(report); }});
    ASSERT_TRUE(writer.start(info_of(state, 12), deal(state, 1, 1)[0]));
    EXPECT_EQ(writer.finish(Deadline::in(60s))->step, 12u);
  }
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_TRUE(reports[0].complete && reports[0].written);
  EXPECT_EQ(reports[0].bytes, Checkpoint::open(step_path(folder / "checkpoints", 12)).bytes());
  EXPECT_GE(reports[0].seconds, reports[0].write_seconds);
}

TEST(Writer, SkipsWhileItIsBusy) {
  const TempFolder folder;
  const State state = small_state(1);
  const auto pieces = deal(state, 1, 1)[0];
  std::promise<void> release;
  Writer writer({.folder = folder.path(), .on_done = [&](const WriteReport& report) {
                   if (report.step == 1) release.get_future().wait();
                 }});
  ASSERT_TRUE(writer.start(info_of(state, 1), pieces));
  EXPECT_TRUE(writer.busy());
  EXPECT_FALSE(writer.start(info_of(state, 2), pieces));
  EXPECT_FAILS(writer.finish(Deadline::in(1ms)), Timeout, "step 1");
  release.set_value();
  EXPECT_EQ(writer.finish(Deadline::in(60s))->step, 1u);
  EXPECT_TRUE(writer.start(info_of(state, 2), pieces));
  EXPECT_EQ(writer.finish(Deadline::in(60s))->step, 2u);
}

TEST(Writer, WritesWhatTheCallerStagedWithoutACopy) {
  const TempFolder folder;
  const State state = small_state(3);
  Writer writer({.folder = folder.path()});
  const std::byte* first_memory = nullptr;
  for (const Step step : {1, 2}) {
    Staging staging = writer.take_staging();
    staging.reset(34);
    const MutableBytes w = staging.add("model/w", 0, 24);
    const MutableBytes b = staging.add("model/b", 0, 10);
    EXPECT_FAILS(staging.add("model/b", 0, 1), InvalidArgument, "does not fit");
    std::ranges::copy(state.bytes[1], b.begin());
    std::ranges::copy(state.bytes[0], w.begin());
    if (step == 1) first_memory = w.data();
    EXPECT_EQ(w.data(), first_memory) << "memory is used again";
    ASSERT_TRUE(writer.start(info_of(state, step), std::move(staging)));
    ASSERT_TRUE(writer.finish(Deadline::in(60s))->complete);
    expect_holds(Checkpoint::open(step_path(folder.path(), step)), state);
  }
}

TEST(Writer, RefusesInvalidArguments) {
  const TempFolder folder;
  const State state = small_state(1);
  const auto pieces = deal(state, 1, 1)[0];
  Writer writer({.folder = folder.path()});
  const auto start = [&](const PartInfo& info, const std::vector<Piece>& given) { (void)writer.start(info, given); };
  EXPECT_FAILS(start(info_of(state, 1, 2, 2), pieces), InvalidArgument, "part 2 of 2");
  EXPECT_FAILS(start(info_of(state, 1, 0, 0), pieces), InvalidArgument, "part 0 of 0");
  EXPECT_FAILS(start(info_of(state, 1, 0, 1, "../up"), pieces), InvalidArgument, "'../up'");
  EXPECT_FAILS(start(info_of(state, 1, 0, 1, ""), pieces), InvalidArgument, "letters");
  EXPECT_FAILS(start(info_of(state, 1), {{"model/x", 0, state.bytes[0]}}), InvalidArgument, "not among the tensors");
  EXPECT_FAILS(start(info_of(state, 1), {{"model/w", 1, state.bytes[0]}}), InvalidArgument, "has 24 bytes");
  EXPECT_FAILS(start(info_of(state, 1), {pieces[0], pieces[1], pieces[0]}), InvalidArgument, "given twice");
  PartInfo info = info_of(state, 1);
  info.tensors.push_back(info.tensors[0]);
  EXPECT_FAILS(start(info, pieces), InvalidArgument, "given twice");
  info = info_of(state, 1);
  info.meta = "\xff";
  EXPECT_FAILS(start(info, pieces), InvalidArgument, "not UTF-8");
  info.meta = nlohmann::json::array();
  for (int i = 0; i < 100; ++i) info.meta = nlohmann::json::array({info.meta});
  EXPECT_FAILS(start(info, pieces), InvalidArgument, "nested");
  EXPECT_FALSE(writer.busy());
}

TEST(Writer, KeepsToItsRate) {
  const TempFolder folder;
  const State state = make_state(1, {{"model/w", DType::kU8, {200'000}}});
  const WriteReport report = write_state({.folder = folder.path(), .bytes_per_second = 1'000'000}, state, 1);
  EXPECT_TRUE(report.complete);
  EXPECT_GE(report.write_seconds, 0.2);
}

TEST(Writer, AbandonsItsWorkWhenClosed) {
  const TempFolder folder;
  const State state = make_state(1, {{"model/w", DType::kU8, {200'000}}});
  std::vector<WriteReport> reports;
  expect_ends_within(kPatience, [&] {
    Writer slow(
        {.folder = folder.path(), .bytes_per_second = 1000, .on_done = [&](const auto& r) { reports.push_back(r); }});
    EXPECT_TRUE(slow.start(info_of(state, 1), deal(state, 1, 1)[0]));
  });
  expect_ends_within(kPatience, [&] {
    Writer lonely({.folder = folder.path(), .on_done = [&](const auto& r) { reports.push_back(r); }});
    EXPECT_TRUE(lonely.start(info_of(state, 2, 0, 2), deal(state, 1, 1)[0]));
  });
  ASSERT_EQ(reports.size(), 2u);
  for (const WriteReport& report : reports) EXPECT_THAT(report.problem, HasSubstr("given up"));
}

TEST(Writer, NamesTheMissingPart) {
  const TempFolder folder;
  const State state = small_state(1);
  const auto dealt = deal(state, 3, 1);
  Writer chief({.folder = folder.path(), .complete_within = 30ms});
  Writer second({.folder = folder.path()});
  ASSERT_TRUE(second.start(info_of(state, 8, 1, 3, "view-3"), dealt[1]));
  ASSERT_TRUE(second.finish(Deadline::in(60s))->written);
  ASSERT_TRUE(chief.start(info_of(state, 8, 0, 3, "view-3"), dealt[0]));
  const WriteReport report = chief.finish(Deadline::in(60s)).value();
  EXPECT_TRUE(report.written);
  EXPECT_FALSE(report.complete);
  EXPECT_THAT(report.problem, AllOf(HasSubstr("part 2 of 3 of step 8"), HasSubstr("'view-3'"), HasSubstr("0.03 s")));
  EXPECT_FAILS(Checkpoint::open(step_path(folder.path(), 8)), Corrupt, "not a complete checkpoint");
}

TEST(Writer, NamesTheBytesThatNoPartWrote) {
  const TempFolder folder;
  const State state = small_state(1);
  const Bytes w = state.bytes[0];
  const Bytes b = state.bytes[1];
  Writer writer({.folder = folder.path()});
  ASSERT_TRUE(
      writer.start(info_of(state, 1),
                   std::vector<Piece>{{"model/w", 0, w.first(8)}, {"model/w", 12, w.subspan(12)}, {"model/b", 0, b}}));
  EXPECT_THAT(writer.finish(Deadline::in(60s))->problem, HasSubstr("bytes 8 to 11 of 'model/w' are in no part"));
  Writer other({.folder = folder.path()});
  ASSERT_TRUE(other.start(info_of(state, 2, 1, 2), std::vector<Piece>{{"model/w", 20, w.subspan(20)}}));
  ASSERT_TRUE(other.finish(Deadline::in(60s))->written);
  ASSERT_TRUE(writer.start(info_of(state, 2, 0, 2), std::vector<Piece>{{"model/w", 0, w}, {"model/b", 0, b}}));
  EXPECT_THAT(writer.finish(Deadline::in(60s))->problem,
              HasSubstr("byte 20 of 'model/w' is in part 0 and again in part 1"));
}

TEST(Attempt, LeftoversOfAnotherAreNotMixedIn) {
  const TempFolder folder;
  const State old = small_state(1);
  const State state = small_state(2);
  const auto write = [&](const State& what, std::uint32_t part, const std::string& attempt) {
    Writer writer({.folder = folder.path(), .complete_within = 30ms});
    EXPECT_TRUE(writer.start(info_of(what, 4, part, 2, attempt), deal(what, 2, 9)[part]));
    return writer.finish(Deadline::in(60s)).value();
  };
  EXPECT_TRUE(write(old, 1, "view-1").written);
  EXPECT_THAT(write(state, 0, "view-2").problem, HasSubstr("part 1 of 2"));
  EXPECT_TRUE(write(state, 1, "view-2").written);
  EXPECT_TRUE(write(state, 0, "view-2").complete);
  expect_holds(Checkpoint::open(step_path(folder.path(), 4)), state);
}

TEST(Attempt, AnotherAttemptReplacesACompleteCheckpointTheSameDoesNot) {
  const TempFolder folder;
  const State old = small_state(1);
  const State state = small_state(2);
  ASSERT_TRUE(write_state({.folder = folder.path()}, old, 4, "a").complete);
  const WriteReport again = write_state({.folder = folder.path()}, state, 4, "a");
  EXPECT_FALSE(again.complete);
  EXPECT_THAT(again.problem, HasSubstr("complete checkpoint of attempt 'a' already"));
  expect_holds(Checkpoint::open(step_path(folder.path(), 4)), old);
  ASSERT_TRUE(write_state({.folder = folder.path()}, state, 4, "b").complete);
  expect_holds(Checkpoint::open(step_path(folder.path(), 4)), state);
  EXPECT_EQ(files_in(step_path(folder.path(), 4)).size(), 3u) << "the old parts are gone";
}

TEST(Retention, KeepsTheLastAndTheBest) {
  const TempFolder folder;
  const State state = small_state(1);
  Writer writer({.folder = folder.path(), .retention = {.keep_last = 2, .keep_best = 1}});
  const double scores[] = {0.1, 0.9, 0.5, std::numeric_limits<double>::quiet_NaN(), 0.2, 0.3};
  for (Step step = 0; step < std::size(scores); ++step) {
    PartInfo info = info_of(state, step);
    info.score = scores[step];
    ASSERT_TRUE(writer.start(info, deal(state, 1, 1)[0]));
    ASSERT_EQ(writer.finish(Deadline::in(60s))->problem, "");
  }
  std::vector<Step> steps;
  for (const CheckpointEntry& entry : list_checkpoints(folder.path())) steps.push_back(entry.step);
  EXPECT_THAT(steps, ::testing::ElementsAre(1, 4, 5));
}

TEST(Retention, FailureIsReportedAndTheCheckpointIsComplete) {
  const TempFolder folder;
  const State state = small_state(1);
  ASSERT_TRUE(write_state({.folder = folder.path()}, state, 1).complete);
  std::filesystem::remove(step_path(folder.path(), 1) / kManifestName);
  std::filesystem::create_directories(step_path(folder.path(), 1) / "part-of-a-user" / "inner");
  const WriteReport report = write_state({.folder = folder.path()}, state, 2);
  EXPECT_TRUE(report.complete);
  EXPECT_THAT(report.problem, AllOf(HasSubstr("step 2 is complete"), HasSubstr("part-of-a-user")));
}

}  // namespace
}  // namespace trireme::checkpoint
