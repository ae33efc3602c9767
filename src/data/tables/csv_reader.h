#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/files/byte_source.h"

namespace trireme::data {

/// Splits a CSV file (plain or gzip) into rows of fields as in RFC 4180: quoted fields may contain separators, line
/// ends and doubled quotes; lines end in LF, CRLF or CR. Spaces around a field, empty lines and a UTF-8 byte order mark
/// are ignored. Keeps one row in memory. Not thread-safe.
class CsvReader {
 public:
  /// Throws IoError if the file cannot be read, InvalidArgument if `separator` could be part of a number or a quote.
  CsvReader(const std::filesystem::path& path, char separator, std::uint64_t max_bytes);

  /// Moves to the next row; returns false at the end of the file. Throws Corrupt for an unclosed quote, for text after
  /// a closing quote, and for fields, rows or files that are too large.
  bool next();

  /// Returns the fields of the current row, unquoted and trimmed; valid until next().
  std::span<const std::string> fields() const { return std::span(fields_).first(count_); }

  /// Returns the line on which the current row starts, from 1.
  std::uint64_t line() const { return row_line_; }

  const std::filesystem::path& path() const { return source_.path(); }

 private:
  int get();
  int peek();
  void read_field();
  void read_plain(std::string& field);
  void read_quoted(std::string& field);
  void check_room(const std::string& field, std::size_t more) const;
  void append(std::string& field, int character);
  void skip_blanks();
  bool at_field_end();
  std::string where(std::uint64_t line) const;

  ByteSource source_;
  int separator_;  ///< as get() returns it: an unsigned byte
  std::uint64_t max_bytes_;
  std::vector<std::byte> buffer_;
  Bytes input_;  ///< the unused part of buffer_
  std::uint64_t line_ = 1;
  std::uint64_t row_line_ = 1;
  std::vector<std::string> fields_;  ///< only grows, so that strings keep their buffers from row to row
  std::size_t count_ = 0;
};

}  // namespace trireme::data
