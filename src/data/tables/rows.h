#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/tables.h"

#include "data/tables/csv_reader.h"

namespace trireme::data {

/// Returns that of comma, tab, semicolon and bar which the first line of the file has most of, outside of quotes.
char find_separator(const std::filesystem::path& path);

/// The rows of the files of a table, one after the other. Not thread-safe.
class TableRows {
 public:
  /// Reads the header, or finds that there is none. Throws as CsvReader; Corrupt if there are no rows.
  TableRows(std::vector<std::filesystem::path> files, char separator, CsvHeader header, std::uint64_t max_bytes);

  /// Moves to the next row; false at the end. Throws Corrupt if it has another number of columns, or the header of
  /// another file differs.
  bool next();

  std::span<const std::string> fields() const { return reader_->fields(); }

  bool has_header() const { return has_header_; }
  const std::vector<std::string>& names() const { return names_; }  ///< `column 0`, ... without a header

  std::string path() const { return reader_->path().string(); }
  std::string at_row() const;                ///< `/data/x.csv, line 7`
  std::string at(std::size_t column) const;  ///< `/data/x.csv, line 7, column 2 ('wind')`

 private:
  bool open_next();

  std::vector<std::filesystem::path> files_;
  std::size_t opened_ = 0;
  char separator_;
  std::uint64_t max_bytes_;
  std::unique_ptr<CsvReader> reader_;
  bool has_header_ = false;
  bool at_first_ = false;  ///< the reader stands on a row that next() has not given yet
  std::vector<std::string> names_;
};

/// Returns the position of the column that `given` names, or whose position it is. Throws InvalidArgument that begins
/// with `path` and lists the names there are.
std::size_t find_column(const std::vector<std::string>& names, const std::string& given, const std::string& path);

/// The same; nullopt if there is none.
std::optional<std::size_t> find_column_if(const std::vector<std::string>& names, const std::string& given);

}  // namespace trireme::data
