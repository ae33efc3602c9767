#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace trireme::store {

class SqliteStatement;

/// A connection to a SQLite file. For one thread at a time. Failures are thrown with the file's name: Timeout if others
/// hold the file for longer than `patience`, Corrupt if it is damaged or no SQLite file, else IoError.
class SqliteDatabase {
 public:
  /// Opens the file, or makes it.
  SqliteDatabase(const std::filesystem::path& path, std::chrono::milliseconds patience);

  const std::filesystem::path& path() const { return path_; }
  std::chrono::milliseconds patience() const { return patience_; }

  /// Runs statements that return nothing.
  void run(const std::string& sql);

  /// Compiles one statement, with `?1`, `?2` … for what is bound.
  SqliteStatement prepare(const std::string& sql);

  /// Throws what the result code `code` of `what` means.
  [[noreturn]] void fail_with(int code, const std::string& what) const;

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  const std::filesystem::path path_;
  const std::chrono::milliseconds patience_;
  std::unique_ptr<sqlite3, Close> database_;
};

/// A compiled statement. It borrows the database, and what is bound until it has run.
class SqliteStatement {
 public:
  SqliteStatement& bind(int parameter, std::string_view bytes);
  SqliteStatement& bind(int parameter, std::int64_t number);

  /// Goes on to the next row; false if there is none.
  bool next();

  /// Runs a statement that returns no rows, and makes it ready to be bound and run again.
  void run();

  /// Columns of the current row, from 0.
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

/// All that runs on `database` until commit() becomes true at once, or not at all. Waits for another writer first.
class SqliteTransaction {
 public:
  explicit SqliteTransaction(SqliteDatabase& database);
  ~SqliteTransaction();  ///< takes back what was not committed

  void commit();

 private:
  SqliteDatabase& database_;
  bool open_ = true;
};

}  // namespace trireme::store
