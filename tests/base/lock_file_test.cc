#include "base/lock_file.h"

#include <filesystem>

#include "base/error.h"
#include "tests/support/expect_fails.h"
#include "tests/support/processes.h"
#include "tests/support/temp_folder.h"

namespace trireme {
namespace {

TEST(LockFile, OneHolderAtATimeAlsoWithinAProcess) {
  const TempFolder folder;
  auto first = LockFile::try_lock(folder / "lock");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->path(), folder / "lock");
  EXPECT_FALSE(LockFile::try_lock(folder / "lock"));
  EXPECT_TRUE(LockFile::is_held(folder / "lock"));
  EXPECT_TRUE(LockFile::try_lock(folder / "another"));
}

TEST(LockFile, TellsOthersWhoHoldsIt) {
  const TempFolder folder;
  const auto lock = LockFile::try_lock(folder / "lock");
  lock->describe_holder("a long description");
  lock->describe_holder("short");
  EXPECT_EQ(read_file(folder / "lock"), "short");
  EXPECT_TRUE(LockFile::is_held(folder / "lock"));
}

TEST(LockFile, ReleaseLetsTheNextHolderIn) {
  const TempFolder folder;
  auto first = LockFile::try_lock(folder / "lock");
  first->release();
  EXPECT_FALSE(LockFile::is_held(folder / "lock"));
  EXPECT_TRUE(LockFile::try_lock(folder / "lock"));
}

TEST(LockFile, DestructionReleasesAndTheFileStays) {
  const TempFolder folder;
  { const auto lock = LockFile::try_lock(folder / "lock"); }
  EXPECT_FALSE(LockFile::is_held(folder / "lock"));
  EXPECT_TRUE(std::filesystem::exists(folder / "lock"));
}

TEST(LockFile, OpeningAndClosingTheFileElsewhereDoesNotReleaseIt) {
  const TempFolder folder;
  const auto lock = LockFile::try_lock(folder / "lock");
  read_file(folder / "lock");
  EXPECT_TRUE(LockFile::is_held(folder / "lock"));
  EXPECT_FALSE(LockFile::try_lock(folder / "lock"));
}

TEST(LockFile, IsHeldNeitherMakesNorLocksTheFile) {
  const TempFolder folder;
  EXPECT_FALSE(LockFile::is_held(folder / "lock"));
  EXPECT_FALSE(std::filesystem::exists(folder / "lock"));
  folder.write("lock", "");
  EXPECT_FALSE(LockFile::is_held(folder / "lock"));
  EXPECT_TRUE(LockFile::try_lock(folder / "lock"));
}

TEST(LockFile, KillingTheHolderReleasesIt) {
  const TempFolder folder;
  Process holder([&](Talk& test) {
    const auto lock = LockFile::try_lock(folder / "lock");
    test.say(lock.has_value());
    test.hear();
  });
  ASSERT_EQ(holder.talk().hear(), true);
  EXPECT_FALSE(LockFile::try_lock(folder / "lock"));
  EXPECT_TRUE(LockFile::is_held(folder / "lock"));
  holder.signal(SIGKILL);
  EXPECT_EQ(holder.wait(), 128 + SIGKILL);
  EXPECT_FALSE(LockFile::is_held(folder / "lock"));
  EXPECT_TRUE(LockFile::try_lock(folder / "lock"));
}

TEST(LockFile, IsNotInPlaceOnceThePathLeadsToAnotherFile) {
  const TempFolder folder;
  const auto lock = LockFile::try_lock(folder / "lock");
  EXPECT_TRUE(lock->in_place());
  std::filesystem::rename(folder / "lock", folder / "elsewhere");
  EXPECT_FALSE(lock->in_place());
  folder.write("lock", "");
  EXPECT_FALSE(lock->in_place());
  EXPECT_TRUE(LockFile::try_lock(folder / "lock"));  // the danger that in_place tells of
  std::filesystem::rename(folder / "elsewhere", folder / "lock");
  EXPECT_TRUE(lock->in_place());
}

TEST(LockFile, FolderThatIsNotThereIsAnIoErrorThatNamesTheFile) {
  const TempFolder folder;
  EXPECT_FAILS(LockFile::try_lock(folder / "none/lock"), IoError, "none/lock");
  EXPECT_FAILS(LockFile::try_lock(folder.path()), IoError, folder.path().string());
}

TEST(FileIdentity, SeesThatAFileWasReplacedOrRemoved) {
  const TempFolder folder;
  const auto path = folder.write("job.db", "old");
  const FileIdentity identity(path);
  EXPECT_TRUE(identity.in_place());
  std::filesystem::rename(folder.write("new", "new"), path);
  EXPECT_FALSE(identity.in_place());
  std::filesystem::remove(path);
  EXPECT_FALSE(identity.in_place());
  EXPECT_FAILS(FileIdentity{path}, IoError, "job.db");
}

}  // namespace
}  // namespace trireme
