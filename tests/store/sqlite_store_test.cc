// What is particular to the store in a SQLite file.
#ifdef TRIREME_HAS_SQLITE

#include "store/sqlite_store.h"

#include <optional>
#include <thread>

#include "base/error.h"
#include "chaos/full_disk.h"
#include "store/sqlite_database.h"
#include "tests/support/expect_fails.h"
#include "tests/support/processes.h"
#include "tests/support/temp_folder.h"

namespace trireme::store {
namespace {

TEST(SqliteStore, AcceptsAPlainPath) {
  const TempFolder folder;
  const auto path = folder / "job.db";
  open_store({.location = path.string()})->campaign({})->commit({{"key", "value"}});
  EXPECT_EQ(open_store({.location = "sqlite:" + path.string()})->get("key"), "value");
}

TEST(SqliteStore, TermsGrowOverRestarts) {
  const TempFolder folder;
  for (std::uint64_t term = 1; term <= 3; ++term) {
    const auto store = open_sqlite_store(folder / "job.db", 1s);
    EXPECT_EQ(store->campaign({.deadline = Deadline::in(0s)})->term(), term);
  }
}

TEST(SqliteStore, RefusesForeignFiles) {
  const TempFolder folder;
  const auto text = folder.write("notes.txt", std::string(5000, 'x'));
  EXPECT_FAILS(open_sqlite_store(text, 1s), Corrupt, "notes.txt", "not a store");
  SqliteDatabase(folder / "other.db", 1s).run("CREATE TABLE birds(name)");
  EXPECT_FAILS(open_sqlite_store(folder / "other.db", 1s), Corrupt, "other.db belongs to another program");
  open_sqlite_store(folder / "newer.db", 1s);
  SqliteDatabase(folder / "newer.db", 1s).run("PRAGMA user_version=7");
  EXPECT_FAILS(open_sqlite_store(folder / "newer.db", 1s), Corrupt, "format 7", "reads format 1");
  EXPECT_FAILS(open_sqlite_store(folder / "missing/job.db", 1s), IoError, "missing/job.db", "cannot be opened");
}

TEST(SqliteStore, ReplacedFileEndsTheLeadership) {
  const TempFolder folder;
  const auto leader = open_sqlite_store(folder / "job.db", 1s)->campaign({});
  leader->commit({{"key", "1"}});
  std::filesystem::rename(folder / "job.db", folder / "moved.db");
  EXPECT_FAILS(leader->commit({{"key", "2"}}), StaleView, "job.db was removed or replaced");
  EXPECT_FALSE(leader->leading());
}

TEST(SqliteStore, LockedFileIsATimeout) {
  const TempFolder folder;
  const auto store = open_sqlite_store(folder / "job.db", 100ms);
  const auto leader = store->campaign({});
  SqliteDatabase intruder(folder / "job.db", 100ms);
  {
    const SqliteTransaction transaction(intruder);
    EXPECT_FAILS(leader->commit({{"key", "1"}}), Timeout, "in use by others for 100 ms");
    EXPECT_EQ(store->get("key"), std::nullopt) << "reading goes on";
  }
  leader->commit({{"key", "1"}});
  EXPECT_EQ(store->get("key"), "1");
}

TEST(SqliteStore, CommitsOnAFullDiskWithTheRoomThatWasReserved) {
  const TempFolder folder;
  Process leader([&](Talk& test) {  // what it mounts goes with it
    std::optional<chaos::FullDisk> mounted;
    try {
      mounted.emplace(folder / "disk");
    } catch (const IoError&) {
      return test.say(false);
    }
    test.say(true);
    chaos::FullDisk& disk = *mounted;
    const auto reserve = folder / "disk/job.db.reserve";
    const auto store = open_sqlite_store(folder / "disk/job.db", 1s);
    const auto leadership = store->campaign({});
    EXPECT_EQ(std::filesystem::file_size(reserve), 8U << 20);
    disk.make_full();
    const std::string large(1 << 20, 'x');
    leadership->commit({{"key", large}});
    EXPECT_FALSE(std::filesystem::exists(reserve));
    for (const char* value : {"1", "2", "3"}) leadership->commit({{"key", value}});
    EXPECT_EQ(store->get("key"), "3");
    disk.make_full();  // what was given up is used now
    EXPECT_FAILS(leadership->commit({{"key", large + large.substr(9999)}}), InvalidArgument, "do not fit");
    EXPECT_FAILS(leadership->commit({{"a", large}, {"b", "1"}}), DiskFull, "no room for the store", "job.db");
    EXPECT_TRUE(leadership->leading());
    disk.make_room();
    leadership->commit({{"a", large}});
    EXPECT_TRUE(std::filesystem::exists(reserve));
    leadership->resign();
    EXPECT_FALSE(std::filesystem::exists(reserve));
  });
  if (!leader.talk().hear()) GTEST_SKIP() << "mounting is not permitted here";
  EXPECT_EQ(leader.wait(), 0);
}

TEST(SqliteStore, CanBeCreatedConcurrently) {
  const TempFolder folder;
  std::vector<std::jthread> openers;
  for (int i = 0; i < 8; ++i) {
    openers.emplace_back([&] { EXPECT_EQ(open_sqlite_store(folder / "job.db", 10s)->get("key"), std::nullopt); });
  }
}

TEST(SqliteStore, RecordsTheTimePerCommit) {
  const TempFolder folder;
  const auto leader = open_sqlite_store(folder / "job.db", 5s)->campaign({});
  constexpr int kCommits = 200;
  const auto start = Deadline::Clock::now();
  for (int i = 0; i < kCommits; ++i) leader->commit({{"view", std::to_string(i)}, {"plan", std::string(200, 'x')}});
  RecordProperty("us_per_commit", std::to_string(seconds(Deadline::Clock::now() - start) / kCommits * 1e6));
}

}  // namespace
}  // namespace trireme::store

#endif  // TRIREME_HAS_SQLITE
