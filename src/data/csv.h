#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "data/dataset.h"
#include "data/mirrors.h"

namespace trireme::data {

enum class CsvHeader {
  kDetect,  ///< the first line is a header if none of its fields is a number
  kPresent,
  kAbsent,
};

struct CsvOptions {
  CsvHeader header = CsvHeader::kDetect;
  char separator = ',';
  /// The column that holds the class: its name in the header, or its position from 0; negative counts from the end.
  std::variant<std::int64_t, std::string> label_column = std::int64_t{-1};
  std::int64_t classes = 0;                          ///< labels must be below this; 0 = the largest label + 1
  std::vector<std::int64_t> shape = {};              ///< how the features of a row form a sample; empty = {features}
  std::uint64_t max_bytes = std::uint64_t{4} << 30;  ///< of text, unpacked; a longer file is refused
};

/// A table of numbers, one sample per row, from a CSV file (plain or gzip), wholly in memory as floats.
///
/// Every column but the label's is a feature. Labels are whole numbers from 0. Read from the first of the file's
/// replicas that is sound (see Mirrors::read_any); a plain file has no checksum, so one that lost whole rows is.
/// Throws IoError if the file cannot be read; Corrupt, naming file, line, column and what was expected, for ragged
/// rows and whatever is not a finite number; InvalidArgument for options that do not fit the file.
std::shared_ptr<const Dataset> load_csv(const Mirrors& files, const CsvOptions& options = {});

}  // namespace trireme::data
