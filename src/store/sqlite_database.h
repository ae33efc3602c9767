#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "trireme/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace trireme::store {

class SqliteStatement;

/// There was no room on the disk for what was to be written.
class DiskFull : public IoError {
 public:
  using IoError::IoError;
};

/// A connection to a SQLite file. Not thread-safe. Exceptions name the file: Timeout if others hold it for longer than
/// `patience`, Corrupt if it is damaged or not a SQLite file, DiskFull, else IoError.
class SqliteDatabase {
 public:
  /// Opens the file, or creates it.
  SqliteDatabase(const std::filesystem::path& path, std::chrono::milliseconds patience);

  const std::filesystem::path& path() const { return path_; }
  std::chrono::milliseconds patience() const { return patience_; }

  /// Runs statements that return no rows.
  void run(const std::string& sql);

  /// Compiles one statement, with `?1`, `?2` … as parameters.
  SqliteStatement prepare(const std::string& sql);

  /// Throws the exception for the result code `code` of `what`.
  [[noreturn]] void fail_with(int code, const std::string& what) const;

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  const std::filesystem::path path_;
  const std::chrono::milliseconds patience_;
  std::unique_ptr<sqlite3, Close> database_;
};

/// A compiled statement. Borrows the database, and bound values until it has run.
class SqliteStatement {
 public:
  SqliteStatement& bind(int parameter, std::string_view bytes);
  SqliteStatement& bind(int parameter, std::int64_t number);

  /// Moves to the next row; returns false if there is none.
  bool next();

  /// Runs a statement that returns no rows, and resets it to be bound and run again.
  void run();

  /// Return columns of the current row, from 0.
  std::string bytes(int column);
  std::int64_t number(int column);

 private:
  friend SqliteDatabase;
  SqliteStatement(SqliteDatabase& database, sqlite3_stmt* statement) : database_(database), statement_(statement) {}

  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  SqliteDatabase& database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

/// Everything run on `database` until commit() takes effect at once, or not at all. Waits for another writer first.
class SqliteTransaction {
 public:
  explicit SqliteTransaction(SqliteDatabase& database);
  ~SqliteTransaction();  ///< rolls back what was not committed

  void commit();

 private:
  SqliteDatabase& database_;
  bool open_ = true;
};

}  // namespace trireme::store
