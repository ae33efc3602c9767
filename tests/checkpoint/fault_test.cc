// Disks that fill up or fail, and machines that die, at every single operation of a write.

#include "base/error.h"
#include "checkpoint/verify.h"
#include "tests/checkpoint/faulty_file_system.h"
#include "tests/checkpoint/testing.h"

namespace trireme::checkpoint {
namespace {

using Kind = FaultPlan::Kind;

/// A complete checkpoint at step 1, without waiting for the disk.
void write_old(const std::filesystem::path& folder, const State& old) {
  FaultyFileSystem files;
  ASSERT_TRUE(write_state({.folder = folder, .files = &files}, old, 1, "old").complete);
}

/// The newest checkpoint is whole, and holds one of the two states.
void expect_one_of(const std::filesystem::path& folder, const State& old, const State& state) {
  const auto newest = latest_complete(folder);
  ASSERT_TRUE(newest) << "none is left";
  EXPECT_TRUE(verify(*newest).sound());
  const Checkpoint checkpoint = Checkpoint::open(*newest);
  expect_holds(checkpoint, checkpoint.meta() == old.meta ? old : state);
  for (const CheckpointEntry& entry : list_checkpoints(folder)) {
    EXPECT_NE(entry.state, CheckpointEntry::State::kDamaged) << entry.problem;
    if (entry.state == CheckpointEntry::State::kComplete) {
      EXPECT_TRUE(verify(entry.folder).sound()) << "a half one: " << entry.folder;
    }
  }
}

/// Writes over an old checkpoint with a fault at each operation in turn, then looks at what is there. `step` 1 is the
/// old one's own step.
void try_everywhere(Kind kind, int error, Step step, bool power_loss, std::size_t longest_write = ~std::size_t{0}) {
  const State old = small_state(1);
  const State state = small_state(2);
  std::uint64_t at = 0;
  for (bool hit = true; hit; ++at) {
    ASSERT_LT(at, 1000u);
    SCOPED_TRACE(fmt::format("fault at operation {}", at));
    const TempFolder folder;
    write_old(folder.path(), old);
    FaultyFileSystem files({.at = at, .kind = kind, .error = error, .longest_write = longest_write});
    const WriteReport report =
        write_state({.folder = folder.path(), .retention = {.keep_last = 1}, .files = &files}, state, step, "new");
    hit = files.injected() > 0;
    if (power_loss) files.lose_power();
    EXPECT_EQ(report.problem.find("injected") != std::string::npos, hit && !report.problem.empty());
    EXPECT_TRUE(report.complete || hit) << report.problem;
    if (report.complete) {
      EXPECT_EQ(Checkpoint::open(step_path(folder.path(), step)).meta(), state.meta);
    }
    expect_one_of(folder.path(), old, state);
  }
  EXPECT_GT(at, 12u) << "so few operations?";
}

TEST(FullDisk, IsReportedAndThePreviousCheckpointStays) {
  try_everywhere(Kind::kFull, ENOSPC, 2, false);
  try_everywhere(Kind::kFull, ENOSPC, 1, false);
}

TEST(FailingDisk, IsReportedAndThePreviousCheckpointStays) {
  try_everywhere(Kind::kOnce, EIO, 2, false);
  try_everywhere(Kind::kOnce, EIO, 1, false);
}

TEST(Crash, LeavesTheOldOrTheNewCheckpoint) {
  try_everywhere(Kind::kCrash, EIO, 2, false);
  try_everywhere(Kind::kCrash, EIO, 1, false);
}

TEST(PowerLoss, LeavesTheOldOrTheNewCheckpoint) {
  try_everywhere(Kind::kCrash, EIO, 2, true);
  try_everywhere(Kind::kCrash, EIO, 1, true);
}

TEST(ShortWrites, AreContinued) { try_everywhere(Kind::kOnce, EIO, 2, false, 50); }

TEST(FullDisk, IncompletePartsAreRemoved) {
  const TempFolder folder;
  const State state = make_state(1);
  FaultyFileSystem files({.at = 8, .kind = Kind::kFull, .longest_write = 100'000});
  const WriteReport report = write_state({.folder = folder.path(), .files = &files}, state, 3);
  EXPECT_FALSE(report.written);
  EXPECT_THAT(report.problem, ::testing::HasSubstr("No space left on device"));
  EXPECT_TRUE(files_in(step_path(folder.path(), 3)).empty());
}

TEST(KilledWriter, LeavesTheOldOrTheNewCheckpoint) {
  const State old = small_state(1);
  const State state = small_state(2);
  for (const std::uint32_t dies : {0u, 1u}) {
    std::uint64_t at = 0;
    for (bool hit = true; hit; ++at) {
      ASSERT_LT(at, 1000u);
      SCOPED_TRACE(fmt::format("writer {} dies at operation {}", dies, at));
      const TempFolder folder;
      write_old(folder.path(), old);
      FaultyFileSystem other;
      FaultyFileSystem files({.at = at, .kind = Kind::kCrash, .error = EIO});
      const auto dealt = deal(state, 2, 3);
      for (const std::uint32_t part : {1u, 0u}) {
        Writer writer({.folder = folder.path(), .complete_within = 1ms, .files = part == dies ? &files : &other});
        ASSERT_TRUE(writer.start(info_of(state, 2, part, 2), dealt[part]));
        const WriteReport report = writer.finish(Deadline::in(60s)).value();
        EXPECT_TRUE(part == 1 || report.complete || files.injected() > 0) << report.problem;
      }
      hit = files.injected() > 0;
      expect_one_of(folder.path(), old, state);
    }
  }
}

}  // namespace
}  // namespace trireme::checkpoint
