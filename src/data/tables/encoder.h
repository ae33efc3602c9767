#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "trireme/tables.h"

#include "data/tables/column_scan.h"
#include "data/tables/rows.h"

namespace trireme::data {

/// Makes samples of the rows of a table, by its encoding. Not thread-safe.
class TableEncoder {
 public:
  /// `names` are the columns of the file. Throws InvalidArgument, beginning with `path`, if a column that is an input
  /// is not among them.
  TableEncoder(const TableEncoding& encoding, const std::vector<std::string>& names, bool by_name,
               const std::string& path);

  /// Adds the row at which `rows` stands, unless a target is missing. Throws Corrupt with file, line and column if a
  /// field is not what the encoding says; InvalidArgument if more than `max_bytes` of memory would be needed.
  void add(const TableRows& rows, std::uint64_t max_bytes);

  std::uint64_t skipped() const { return skipped_; }  ///< rows without a target

  /// Returns the samples, called `name`. Throws Corrupt if there are none.
  DatasetPtr finish(const std::string& name);

 private:
  using Words = std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>>;

  struct Input {
    const ColumnEncoding* encoding;
    std::size_t column;      ///< in the file
    std::size_t format = 0;  ///< of a date
    Words words = {};        ///< of a category
  };
  struct Target {
    const TargetEncoding* encoding;
    std::size_t column;
    std::optional<double> bound = {};  ///< of a condition on numbers
    Words words = {};
    std::vector<float> quantities = {};
    std::vector<std::int64_t> classes = {};
  };

  void add_number(const Input& input, const TableRows& rows);
  void add_date(const Input& input, const TableRows& rows);
  void add_target(Target& target, const TableRows& rows);

  std::vector<Input> inputs_;
  std::vector<Target> targets_;
  std::vector<std::int64_t> limits_;  ///< of classes, by category
  std::size_t numbers_each_ = 0;
  std::vector<float> numbers_;
  std::vector<std::int64_t> categories_;
  std::uint64_t rows_ = 0;
  std::uint64_t skipped_ = 0;
};

}  // namespace trireme::data
