#ifdef TRIREME_HAS_SQLITE

#include "store/sqlite_database.h"

#include <sqlite3.h>

#include "base/error.h"
#include "base/log.h"

namespace trireme::store {

void SqliteDatabase::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }
void SqliteStatement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

SqliteDatabase::SqliteDatabase(const std::filesystem::path& path, std::chrono::milliseconds patience)
    : path_(path), patience_(patience) {
  sqlite3* opened = nullptr;
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(path.c_str(), &opened, kFlags, nullptr);
  database_.reset(opened);  // must be closed even if opening failed
  if (code != SQLITE_OK) fail_with(code, "be opened");
  sqlite3_extended_result_codes(opened, 1);
  sqlite3_busy_timeout(opened, static_cast<int>(patience.count()));
}

void SqliteDatabase::run(const std::string& sql) {
  const int code = sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail_with(code, "run " + sql);
}

SqliteStatement SqliteDatabase::prepare(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(database_.get(), sql.c_str(), -1, &statement, nullptr);
  if (code != SQLITE_OK) fail_with(code, "run " + sql);
  return {*this, statement};
}

void SqliteDatabase::fail_with(int code, const std::string& what) const {
  const std::string reason = database_ ? sqlite3_errmsg(database_.get()) : sqlite3_errstr(code);
  if (code == SQLITE_FULL || code == SQLITE_IOERR_SHMSIZE) {
    fail<DiskFull>("there is no room for the store {} ({}): free some space on its disk", path_.string(), reason);
  }
  switch (code & 0xff) {  // the upper bits only add detail
    case SQLITE_BUSY:
      fail<Timeout>("the store {} was in use by others for {} ms: see who has it open (fuser {})", path_.string(),
                    patience_.count(), path_.string());
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      fail<Corrupt>("the store {} is damaged or not a store ({}): name another file, or move this one away",
                    path_.string(), reason);
    default:
      fail<IoError>("the store {} cannot {}: {}", path_.string(), what, reason);
  }
}

SqliteStatement& SqliteStatement::bind(int parameter, std::string_view bytes) {
  // SQLite takes a null pointer for NULL, so empty values need a pointer that is not null.
  const char* begin = bytes.empty() ? "" : bytes.data();
  const int code = sqlite3_bind_blob64(statement_.get(), parameter, begin, bytes.size(), SQLITE_STATIC);
  if (code != SQLITE_OK) database_.fail_with(code, "take a value");
  return *this;
}

SqliteStatement& SqliteStatement::bind(int parameter, std::int64_t number) {
  const int code = sqlite3_bind_int64(statement_.get(), parameter, number);
  if (code != SQLITE_OK) database_.fail_with(code, "take a number");
  return *this;
}

bool SqliteStatement::next() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) database_.fail_with(code, std::string("run ") + sqlite3_sql(statement_.get()));
  return false;
}

void SqliteStatement::run() {
  next();
  sqlite3_reset(statement_.get());
}

std::string SqliteStatement::bytes(int column) {
  const void* begin = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return begin == nullptr ? "" : std::string(static_cast<const char*>(begin), static_cast<std::size_t>(size));
}

std::int64_t SqliteStatement::number(int column) { return sqlite3_column_int64(statement_.get(), column); }

// IMMEDIATE: a transaction that starts as a reader would fail, not wait, if another has written in between.
SqliteTransaction::SqliteTransaction(SqliteDatabase& database) : database_(database) {
  database_.run("BEGIN IMMEDIATE");
}

SqliteTransaction::~SqliteTransaction() {
  if (!open_) return;
  try {
    database_.run("ROLLBACK");
  } catch (const Error& problem) {  // after some failures SQLite has already rolled back
    log_debug("rollback_failed", "nothing to roll back", {{"reason", problem.what()}});
  }
}

void SqliteTransaction::commit() {
  database_.run("COMMIT");
  open_ = false;
}

}  // namespace trireme::store

#endif  // TRIREME_HAS_SQLITE
