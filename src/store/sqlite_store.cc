#include "store/sqlite_store.h"

#include "base/error.h"

#ifndef TRIREME_HAS_SQLITE

namespace trireme::store {

std::unique_ptr<Store> open_sqlite_store(const std::filesystem::path& path, std::chrono::milliseconds /*call_within*/) {
  fail<InvalidArgument>(
      "the store {} needs SQLite, and Trireme was built without: install libsqlite3-dev and run CMake again, or use "
      "memory: (lost with the master) or etcd://host:2379",
      path.string());
}

}  // namespace trireme::store

#else

#include <fcntl.h>

#include <atomic>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/lock_file.h"
#include "base/log.h"
#include "base/mutex.h"
#include "store/sqlite_database.h"

namespace trireme::store {
namespace {

constexpr int kOurFiles = 0x54726952;  // "TriR": distinguishes our files from other programs'
constexpr int kFormat = 1;

std::filesystem::path lock_path(const std::filesystem::path& store) { return store.string() + ".lock"; }

std::int64_t pragma(SqliteDatabase& database, const std::string& name) {
  auto answer = database.prepare("PRAGMA " + name);
  return answer.next() ? answer.number(0) : 0;
}

/// Switches to a write-ahead log. Retries: if others do the same to a new file, SQLite fails instead of waiting.
void write_ahead(SqliteDatabase& database, Deadline deadline) {
  for (;;) {
    try {
      return database.run("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL");
    } catch (const Timeout&) {
      if (deadline.passed()) throw;
      std::this_thread::sleep_for(5ms);
    }
  }
}

/// Creates the tables if the file is new; throws Corrupt if it belongs to another program.
void set_up(SqliteDatabase& database) {
  write_ahead(database, Deadline::in(database.patience()));
  SqliteTransaction transaction(database);
  const bool is_new = pragma(database, "schema_version") == 0;
  if (is_new) {
    database.run(
        fmt::format("PRAGMA application_id={}; PRAGMA user_version={};"
                    "CREATE TABLE entries(key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL);"
                    "CREATE TABLE leader(term INTEGER NOT NULL, name BLOB, value BLOB);"
                    "INSERT INTO leader VALUES(0, NULL, NULL)",
                    kOurFiles, kFormat));
  } else if (pragma(database, "application_id") != kOurFiles) {
    fail<Corrupt>("{} belongs to another program: name another file for the store", database.path().string());
  } else if (pragma(database, "user_version") != kFormat) {
    fail<Corrupt>("the store {} has format {}, this Trireme reads format {}: use the Trireme that made it",
                  database.path().string(), pragma(database, "user_version"), kFormat);
  }
  transaction.commit();
}

/// Room on the disk that is kept for a store: a file beside it, which goes when the store needs its place. A leader
/// that dies leaves it to the next one.
class Reserve {
 public:
  explicit Reserve(const std::filesystem::path& store) : path_(store.string() + ".reserve") {
    std::error_code ignored;
    held_ = std::filesystem::file_size(path_, ignored) == kBytes;
    if (!held_) refill();
  }
  ~Reserve() { release(); }
  Reserve(const Reserve&) = delete;
  Reserve& operator=(const Reserve&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Gives the room to whoever writes next. Returns false if there was none.
  bool release() {
    std::error_code ignored;
    return std::exchange(held_, false) && std::filesystem::remove(path_, ignored);
  }

  /// Reserves it again, if there is enough for others too.
  void refill() {
    if (held_) return;
    std::error_code ignored;
    if (std::filesystem::space(path_.parent_path(), ignored).available < 4 * kBytes) return;
    const FileDescriptor file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    held_ = file && ::posix_fallocate(file.get(), 0, kBytes) == 0;
    if (!held_) std::filesystem::remove(path_, ignored);
  }

 private:
  // The write-ahead log grows to 1000 pages of 4 KiB before it is used again from its beginning; then there are the
  // pages of the largest commits.
  static constexpr std::uintmax_t kBytes = 8UL << 20;

  const std::filesystem::path path_;
  bool held_ = false;
};

class SqliteLeadership : public Leadership {
 public:
  SqliteLeadership(const std::filesystem::path& path, std::chrono::milliseconds call_within, LockFile lock,
                   const Candidate& candidate)
      : database_(path, call_within), lock_(std::move(lock)), file_(path), reserve_(path) {
    const MutexLock alone(mutex_);
    with_room([&]() TRIREME_REQUIRES(mutex_) { take_lead(candidate); });
  }

  std::uint64_t term() const override { return static_cast<std::uint64_t>(term_); }
  bool leading() const override { return !over_; }
  bool over() const override { return over_; }

  void commit(const Changes& changes) override {
    check_changes(changes);
    const MutexLock lock(mutex_);
    check_leading();
    with_room([&]() TRIREME_REQUIRES(mutex_) { write(changes); });
    reserve_.refill();
  }

  void resign() override {
    const MutexLock lock(mutex_);
    if (over_.exchange(true)) return;
    reserve_.release();
    lock_.release();  // ends the leadership; the row keeps the term
  }

 private:
  void take_lead(const Candidate& candidate) TRIREME_REQUIRES(mutex_) {
    set_up(database_);
    SqliteTransaction transaction(database_);
    term_ = row_term() + 1;
    database_.prepare("UPDATE leader SET term=?1, name=?2, value=?3")
        .bind(1, term_)
        .bind(2, candidate.name)
        .bind(3, candidate.value)
        .run();
    transaction.commit();
  }

  void write(const Changes& changes) TRIREME_REQUIRES(mutex_) {
    SqliteTransaction transaction(database_);
    if (row_term() != term_) end("another master took the lead");
    auto put =
        database_.prepare("INSERT INTO entries VALUES(?1, ?2) ON CONFLICT(key) DO UPDATE SET value=excluded.value");
    auto remove = database_.prepare("DELETE FROM entries WHERE key=?1");
    for (const auto& [key, value] : changes) {
      if (value) {
        put.bind(1, key).bind(2, *value).run();
      } else {
        remove.bind(1, key).run();
      }
    }
    transaction.commit();
  }

  /// Does `work`, which takes effect as a whole or not at all; if the disk is full, once more with what is reserved.
  template <typename Work>
  void with_room(Work work) TRIREME_REQUIRES(mutex_) {
    try {
      return work();
    } catch (const DiskFull& problem) {
      if (!reserve_.release()) throw;
      log_warn("reserve_used", "the disk is full: the store uses the room that was kept for it",
               {{"reserve", reserve_.path().string()}, {"reason", problem.what()}});
    }
    work();
  }

  std::int64_t row_term() TRIREME_REQUIRES(mutex_) {
    auto row = database_.prepare("SELECT term FROM leader");
    if (!row.next()) fail<Corrupt>("the store {} has lost its term: move it away", database_.path().string());
    return row.number(0);
  }

  /// The lock means nothing if others use another file than ours.
  void check_leading() TRIREME_REQUIRES(mutex_) {
    if (over_) end("it was given up");
    if (!lock_.in_place()) end(lock_.path().string() + " was removed or replaced");
    if (!file_.in_place()) end(database_.path().string() + " was removed or replaced");
  }

  [[noreturn]] void end(const std::string& reason) TRIREME_REQUIRES(mutex_) {
    over_ = true;
    fail<StaleView>("the leadership of term {} of the store {} is over: {}; campaign again, or end", term_,
                    database_.path().string(), reason);
  }

  Mutex mutex_;
  SqliteDatabase database_ TRIREME_GUARDED_BY(mutex_);
  LockFile lock_ TRIREME_GUARDED_BY(mutex_);
  FileIdentity file_ TRIREME_GUARDED_BY(mutex_);
  Reserve reserve_ TRIREME_GUARDED_BY(mutex_);  // goes before the lock: the next leader has its own
  std::int64_t term_ = 0;
  std::atomic<bool> over_ = false;
};

class SqliteStore : public Store {
 public:
  SqliteStore(const std::filesystem::path& path, std::chrono::milliseconds call_within)
      : path_(path), call_within_(call_within), database_(path, call_within) {
    set_up(database_);
  }

  std::optional<std::string> get(const std::string& key) override {
    const MutexLock lock(mutex_);
    auto row = database_.prepare("SELECT value FROM entries WHERE key=?1");
    return row.bind(1, key).next() ? std::optional(row.bytes(0)) : std::nullopt;
  }

  std::map<std::string, std::string> list(const std::string& prefix) override {
    const MutexLock lock(mutex_);
    std::map<std::string, std::string> found;
    auto row = database_.prepare("SELECT key, value FROM entries WHERE key>=?1 ORDER BY key");
    row.bind(1, prefix);
    while (row.next()) {
      std::string key = row.bytes(0);
      if (!key.starts_with(prefix)) break;
      found.emplace(std::move(key), row.bytes(1));
    }
    return found;
  }

  std::optional<Leader> leader() override {
    const MutexLock lock(mutex_);
    if (!LockFile::is_held(lock_path(path_))) return std::nullopt;
    auto row = database_.prepare("SELECT term, name, value FROM leader");
    if (!row.next()) return std::nullopt;
    return Leader{.name = row.bytes(1), .value = row.bytes(2), .term = static_cast<std::uint64_t>(row.number(0))};
  }

  std::unique_ptr<Leadership> campaign(const Campaign& campaign) override {
    for (;;) {
      if (auto lock = LockFile::try_lock(lock_path(path_))) {
        return std::make_unique<SqliteLeadership>(path_, call_within_, std::move(*lock), campaign.candidate);
      }
      if (campaign.deadline.passed()) return nullptr;
      std::this_thread::sleep_for(std::min<Deadline::Clock::duration>(campaign.deadline.left(), 20ms));
    }
  }

 private:
  const std::filesystem::path path_;
  const std::chrono::milliseconds call_within_;
  Mutex mutex_;
  SqliteDatabase database_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Store> open_sqlite_store(const std::filesystem::path& path, std::chrono::milliseconds call_within) {
  return std::make_unique<SqliteStore>(std::filesystem::absolute(path), call_within);
}

}  // namespace trireme::store

#endif  // TRIREME_HAS_SQLITE
