// Checkpoints that were whole once: whatever happens to their files is found, and the place is named.

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/list.h"
#include "checkpoint/retention.h"
#include "checkpoint/verify.h"
#include "tests/checkpoint/faulty_file_system.h"
#include "tests/checkpoint/testing.h"
#include "tests/support/expect_fails.h"

namespace trireme::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Changes one byte of a file in place.
void poke(const std::filesystem::path& path, std::size_t byte, char value) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(byte)).put(value);
}

class DamageTest : public ::testing::Test {
 protected:
  /// Two parts, without waiting for the disk.
  std::filesystem::path write(const State& state, Step step) {
    const auto dealt = deal(state, 2, step);
    FaultyFileSystem files;
    for (const std::uint32_t part : {1u, 0u}) {
      Writer writer({.folder = folder_.path(), .files = &files});
      EXPECT_TRUE(writer.start(info_of(state, step, part, 2), dealt[part]));
      EXPECT_TRUE(writer.finish(Deadline::in(60s))->written);
    }
    return step_path(folder_.path(), step);
  }

  const TempFolder folder_;
};

TEST_F(DamageTest, EveryFlippedBitOfASmallCheckpointIsFound) {
  const auto path = write(small_state(1), 1);
  ASSERT_TRUE(verify(path).sound());
  for (const auto& [name, sound] : files_in(path)) {
    RandomStream random(1);
    for (std::size_t byte = 0; byte < sound.size(); ++byte) {
      poke(path / name, byte, static_cast<char>(sound[byte] ^ (1 << random.below(8))));
      const VerifyReport report = verify(path);
      ASSERT_FALSE(report.sound()) << name << " byte " << byte;
      const std::string told = report.damaged.empty() ? report.problems[0] : describe(report.damaged[0]);
      ASSERT_THAT(told, HasSubstr(name)) << "byte " << byte;
      if (!name.ends_with(".bin")) {
        ASSERT_THROW(Checkpoint::open(path), Corrupt) << name << " byte " << byte;
      }
      poke(path / name, byte, sound[byte]);
    }
  }
  EXPECT_TRUE(verify(path).sound());
}

TEST_F(DamageTest, ReportNamesPartBlockBytesAndTensor) {
  const State state = make_state(1, {{"model/a", DType::kU8, {300'000}}, {"model/b", DType::kU8, {300'000}}});
  FaultyFileSystem files;
  ASSERT_TRUE(write_state({.folder = folder_.path(), .files = &files}, state, 1).complete);
  const auto path = step_path(folder_.path(), 1);
  const auto data = path / "part-0-of-1.1.bin";
  std::string spoilt = read_file(data);
  spoilt[290'000] = static_cast<char>(spoilt[290'000] ^ 4);
  spoilt[599'999] = static_cast<char>(spoilt[599'999] ^ 128);
  overwrite(data, spoilt);
  const VerifyReport report = verify(path);
  EXPECT_EQ(report.blocks, 3u);
  ASSERT_EQ(report.damaged.size(), 2u);
  EXPECT_EQ(report.damaged[0].block, 1u);
  EXPECT_EQ(report.damaged[0].begin, 262'144u);
  EXPECT_EQ(report.damaged[0].end, 524'288u);
  EXPECT_THAT(report.damaged[0].holds,
              ElementsAre(PieceInfo{"model/a", 262'144, 37'856}, PieceInfo{"model/b", 0, 224'288}));
  EXPECT_THAT(report.damaged[1].holds, ElementsAre(PieceInfo{"model/b", 224'288, 75'712}));
  EXPECT_THAT(describe(report.damaged[0]),
              AllOf(HasSubstr(data.string()), HasSubstr("block 1 (bytes 262144 to 524287)"),
                    HasSubstr("'model/a' bytes 262144 to 299999")));
  const Checkpoint checkpoint = Checkpoint::open(path);
  std::vector<std::byte> some(1000);
  checkpoint.read("model/a", 0, some);  // lies in block 0, which is sound
  EXPECT_FAILS(checkpoint.read("model/a"), Corrupt, data.string(), "block 1", "expected", "trireme ckpt ls");
  EXPECT_FAILS(checkpoint.read("model/b", 299'999, MutableBytes(some).first(1)), Corrupt, "block 2");
}

TEST_F(DamageTest, FilesThatAreMissingCutOrGrownAreNamed) {
  const auto path = write(make_state(2), 1);
  const auto sound = files_in(path);
  ASSERT_EQ(sound.size(), 5u);
  for (const auto& [name, content] : sound) {
    const auto expect_told = [&, &name = name] {
      const VerifyReport report = verify(path);
      ASSERT_EQ(report.problems.size(), 1u);
      EXPECT_THAT(report.problems[0], HasSubstr(name));
      EXPECT_FAILS(Checkpoint::open(path), Corrupt, name);
    };
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, content.size() / 2, content.size() - 1}) {
      overwrite(path / name, content.substr(0, size));
      expect_told();
    }
    overwrite(path / name, content + "x");
    expect_told();
    std::filesystem::remove(path / name);
    expect_told();
    std::filesystem::create_directory(path / name);
    expect_told();
    std::filesystem::remove(path / name);
    overwrite(path / name, content);
  }
  overwrite(path / "notes.txt", "of the user");
  EXPECT_TRUE(verify(path).sound()) << "a file of somebody else harms nothing";
}

TEST_F(DamageTest, FilesOfAnotherCheckpointDoNotPass) {
  const auto first = write(small_state(1), 1);
  const auto second = write(small_state(2), 2);
  const auto copy = [&](const std::string& from, const std::string& to) {
    std::filesystem::copy_file(first / from, second / to, std::filesystem::copy_options::overwrite_existing);
  };
  copy("manifest.json", "manifest.json");
  EXPECT_FAILS(Checkpoint::open(second), Corrupt, "is of step 1");
  const auto third = write(small_state(3), 3);
  std::filesystem::copy_file(third / "part-0-of-2.1.json", third / "part-1-of-2.1.json",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_FAILS(Checkpoint::open(third), Corrupt, "describes step 3, attempt '1', part 0 of 2", "expected step 3");
}

TEST_F(DamageTest, AReadAfterTheFileWasCutIsAnErrorNotACrash) {
  const auto path = write(make_state(2), 1);
  const Checkpoint checkpoint = Checkpoint::open(path);
  for (const char* name : {"part-0-of-2.1.bin", "part-1-of-2.1.bin"}) std::filesystem::resize_file(path / name, 10);
  EXPECT_FAILS(checkpoint.read("model/large"), Corrupt, "ends at byte 10");
}

TEST_F(DamageTest, TheLatestIsTheNewestThatCanBeOpened) {
  EXPECT_EQ(latest_complete(folder_ / "nothing"), std::nullopt);
  EXPECT_EQ(latest_complete(folder_.path()), std::nullopt);
  const auto first = write(small_state(1), 1);
  const auto second = write(small_state(2), 2);
  const auto third = write(small_state(3), 3);
  std::filesystem::create_directory(step_path(folder_.path(), 4));
  std::filesystem::create_directory(folder_ / "step-5");
  overwrite(folder_ / "step-000000006", "a file");
  EXPECT_EQ(latest_complete(folder_.path()), third);
  overwrite(third / "manifest.json", "{}");
  std::filesystem::remove(second / "part-1-of-2.1.bin");
  EXPECT_EQ(latest_complete(folder_.path()), first);
  std::vector<CheckpointEntry::State> states;
  for (const CheckpointEntry& entry : list_checkpoints(folder_.path())) states.push_back(entry.state);
  using enum CheckpointEntry::State;
  EXPECT_THAT(states, ElementsAre(kComplete, kComplete, kDamaged, kIncomplete, kIncomplete));
  EXPECT_THAT(list_checkpoints(folder_.path())[2].problem, HasSubstr("manifest.json is damaged"));
}

TEST_F(DamageTest, ReadingFallsBackToTheNewestSoundCheckpoint) {
  const auto read = [&] {
    std::vector<Step> tried;
    EXPECT_TRUE(read_newest(folder_.path(), [&](const Checkpoint& checkpoint) {
      tried.push_back(checkpoint.step());
      expect_holds(checkpoint, small_state(checkpoint.step()));
    }));
    return tried;
  };
  EXPECT_FALSE(read_newest(folder_.path(), [](const Checkpoint&) {}));
  std::vector<std::filesystem::path> paths;
  for (const Step step : {1, 2, 3}) paths.push_back(write(small_state(step), step));
  EXPECT_THAT(read(), ElementsAre(3));
  const auto damage = [&](const std::filesystem::path& path) {
    const auto file = path / "part-1-of-2.1.bin";
    poke(file, 5, static_cast<char>(read_file(file)[5] ^ 1));
  };
  damage(paths[2]);
  EXPECT_THAT(read(), ElementsAre(3, 2));
  overwrite(paths[1] / "manifest.json", "{}");
  EXPECT_THAT(read(), ElementsAre(3, 1));
  damage(paths[0]);
  EXPECT_FAILS(read(), Corrupt, "no checkpoint in", paths[0].string(), "--overwrite");
}

TEST_F(DamageTest, WhatIsReadMayStillBeRefusedForOtherReasons) {
  write(small_state(1), 1);
  write(small_state(2), 2);
  EXPECT_THROW(read_newest(folder_.path(), [](const Checkpoint&) { fail<InvalidArgument>("another model"); }),
               InvalidArgument);
}

TEST_F(DamageTest, LaterCheckpointsCanBeSetAside) {
  for (const Step step : {1, 2, 3}) write(small_state(step), step);
  EXPECT_THAT(set_aside_after(real_file_system(), folder_.path(), 3), ElementsAre());
  EXPECT_THAT(set_aside_after(real_file_system(), folder_.path(), 1),
              ElementsAre(folder_ / "step-000000002.aside", folder_ / "step-000000003.aside"));
  EXPECT_EQ(latest_complete(folder_.path()), step_path(folder_.path(), 1));
  write(small_state(2), 2);
  EXPECT_THAT(set_aside_after(real_file_system(), folder_.path(), 1), ElementsAre(folder_ / "step-000000002.aside-2"));
  EXPECT_THAT(read_file(folder_ / "step-000000002.aside/manifest.json"), HasSubstr("part"));
}

TEST_F(DamageTest, LocateAcceptsRunCheckpointsAndStepFolders) {
  const auto checkpoints = folder_ / "run/checkpoints";
  FaultyFileSystem files;
  ASSERT_TRUE(write_state({.folder = checkpoints, .files = &files}, small_state(1), 7).complete);
  EXPECT_EQ(locate(folder_ / "run").folder, checkpoints);
  EXPECT_EQ(locate(checkpoints).folder, checkpoints);
  EXPECT_EQ(locate(step_path(checkpoints, 7)).step_folder, step_path(checkpoints, 7));
  std::filesystem::rename(step_path(checkpoints, 7), checkpoints / "copy");
  EXPECT_EQ(locate(checkpoints / "copy").step_folder, checkpoints / "copy");
  EXPECT_FAILS(locate(folder_ / "nowhere"), InvalidArgument, "nowhere is not a folder");
}

}  // namespace
}  // namespace trireme::checkpoint
