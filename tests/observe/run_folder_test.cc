#include "observe/run_folder.h"

#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/expect_fails.h"
#include "tests/support/temp_folder.h"

namespace trireme::observe {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

void put(const fs::path& path) { write_file_atomically(path, as_bytes("text")); }

TEST(RunFolder, KnowsWhereEverythingLies) {
  const TempFolder temp;
  const RunFolder run = RunFolder::create({.root = temp / "runs", .name = "first"});
  EXPECT_EQ(run.path(), temp / "runs/first");
  EXPECT_EQ(run.metrics(), run.path() / "metrics.jsonl");
  EXPECT_EQ(run.model(), run.path() / "model.safetensors");
  EXPECT_EQ(run.result(), run.path() / "result.json");
  EXPECT_EQ(run.config(), run.path() / "config.toml");
  EXPECT_EQ(run.log("worker 1"), run.path() / "logs/worker-1.log");
  EXPECT_EQ(run.log("../../etc/passwd"), run.path() / "logs/_..-..-etc-passwd.log");
  EXPECT_TRUE(fs::is_directory(run.tensorboard()));
  EXPECT_TRUE(fs::is_directory(run.logs()));
}

TEST(RunFolder, WithoutANameTakesTimeAndModel) {
  const TempFolder temp;
  const RunFolderOptions options{.root = temp / "runs",
                                 .model = "wide & deep",
                                 .now = std::chrono::system_clock::time_point(std::chrono::seconds(1'000'000'000))};
  EXPECT_EQ(RunFolder::create(options).path(), temp / "runs/20010909-014640-wide---deep");
  EXPECT_EQ(RunFolder::create(options).path(), temp / "runs/20010909-014640-wide---deep-2");
  EXPECT_EQ(RunFolder::create(options).path(), temp / "runs/20010909-014640-wide---deep-3");
}

TEST(RunFolder, RefusesAFolderThatHoldsARunAndSaysWhatToDo) {
  const TempFolder temp;
  const RunFolderOptions options{.path = temp / "out"};
  for (const std::string file : {"metrics.jsonl", "model.safetensors", "result.json", "config.toml",
                                 "logs/worker-0.log", "tensorboard/events.out.tfevents.1.host.2"}) {
    const fs::path run = RunFolder::create(options).path();
    put(run / file);
    try {
      RunFolder::create(options);
      FAIL() << "took a folder that holds " << file;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr(run.string()), HasSubstr(file), HasSubstr("--out"), HasSubstr("--overwrite")));
    }
    EXPECT_TRUE(fs::exists(run / file));
    fs::remove_all(run);
  }
}

TEST(RunFolder, AFolderWithOtherFilesIsFine) {
  const TempFolder temp;
  fs::create_directory(temp / "out");
  put(temp / "out/notes.txt");
  EXPECT_TRUE(RunFolder::create({.path = temp / "out"}).run_files().empty());
}

TEST(RunFolder, OverwritingRemovesTheRunAndNothingElse) {
  const TempFolder temp;
  RunFolder::create({.path = temp / "out"});
  const RunFolder run = RunFolder::open(temp / "out");
  for (const fs::path& file : {run.metrics(), run.log("worker 0"), run.tensorboard() / "events.out.tfevents.1.host.2",
                               run.path() / "notes.txt", run.logs() / "mine.txt"}) {
    put(file);
  }
  EXPECT_EQ(run.run_files().size(), 3u);
  EXPECT_TRUE(RunFolder::create({.path = temp / "out", .overwrite = true}).run_files().empty());
  EXPECT_TRUE(fs::exists(run.path() / "notes.txt"));
  EXPECT_TRUE(fs::exists(run.logs() / "mine.txt"));
}

TEST(RunFolder, OneHolderAtATimeAndTheOthersAreToldWhoItIs) {
  const TempFolder temp;
  const fs::path path = temp / "out";
  const std::string who = fmt::format("pid {} on ", ::getpid());
  {
    const RunFolder run = RunFolder::create({.path = path});
    put(run.metrics());
    EXPECT_FAILS(RunFolder::create({.path = path}), InvalidArgument, path.string(), who, "trireme stop");
    EXPECT_FAILS(RunFolder::create({.path = path, .overwrite = true}), InvalidArgument, path.string(), who);
    EXPECT_FAILS(RunFolder::reopen(path), InvalidArgument, path.string(), who);
    EXPECT_TRUE(fs::exists(run.metrics()));
    EXPECT_EQ(RunFolder::open(path).metrics(), run.metrics()) << "its own processes do not hold it";
  }
  const RunFolder again = RunFolder::reopen(path);
  const RunFolder copy = again;
  EXPECT_FAILS(RunFolder::reopen(path), InvalidArgument, who);
}

TEST(RunFolder, RefusesNamesThatArePaths) {
  const TempFolder temp;
  for (const std::string name : {"../up", "a/b", ".", "..", ".hidden", "two words", "a\nb"}) {
    EXPECT_THROW(RunFolder::create({.root = temp / "runs", .name = name}), InvalidArgument) << name;
  }
  EXPECT_FALSE(fs::exists(temp / "runs"));
}

TEST(RunFolder, OpensOnlyWhatExists) {
  const TempFolder temp;
  EXPECT_THROW(RunFolder::open(temp / "out"), InvalidArgument);
  RunFolder::create({.path = temp / "out"});
  EXPECT_EQ(RunFolder::open(temp / "out").metrics(), temp / "out/metrics.jsonl");
}

TEST(RunFolder, NamesAFileInItsPlace) {
  const TempFolder temp;
  put(temp / "runs");
  EXPECT_THROW(RunFolder::create({.root = temp / "runs", .model = "lenet"}), IoError);
  EXPECT_THROW(RunFolder::create({.path = temp / "runs"}), IoError);
  EXPECT_THROW(RunFolder::create({.path = temp / "runs/below"}), IoError);
}

}  // namespace
}  // namespace trireme::observe
