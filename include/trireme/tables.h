#pragma once

// Tables as they are in the world: CSV and TSV files with a header, quoted text, dates, words and gaps, as samples that
// a model takes. What was found out about the columns is a value of its own, the TableEncoding, so that a test set and
// a later prediction give the same numbers to the same things.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/sources.h"

namespace trireme::data {

/// What a column is taken for.
enum class ColumnKind {
  kNumber,
  kDate,      ///< a date, a time, or both
  kCategory,  ///< words, or numbers that only name things
  kIgnored,
};

/// Returns `number`, `date`, `category`, `ignore`; the text lives forever.
std::string_view name_of(ColumnKind kind);

/// How a column becomes numbers.
struct ColumnEncoding {
  std::string name = {};  ///< `column 3` in a file without a header, from 0
  ColumnKind kind = ColumnKind::kNumber;
  double fill = 0;                           ///< of numbers and dates: stands for one that is missing; the mean
  bool indicator = false;                    ///< of them: another number is 1 where it is missing, else 0
  std::string date = {};                     ///< of dates: how they are written, such as `YYYY-MM-DD`
  bool time = false;                         ///< of dates: some have a time of day
  std::vector<std::string> vocabulary = {};  ///< of categories: class i + 1 is entry i; class 0 is missing or unknown

  bool operator==(const ColumnEncoding&) const = default;
};

/// How a target is made.
struct TargetEncoding {
  enum class Kind {
    kQuantity,   ///< F32
    kClass,      ///< a word of the vocabulary
    kNumbered,   ///< whole numbers from 0 that are classes already
    kCondition,  ///< class 1 where it holds, else 0
  };

  std::string name = {};  ///< of the field; a condition is its own name: `delay>15`
  std::size_t column = 0;
  Kind kind = Kind::kQuantity;
  std::int64_t classes = 0;                  ///< 0 = a quantity
  std::vector<std::string> vocabulary = {};  ///< of kClass
  std::string comparison = {};               ///< of kCondition: > >= < <= == !=
  std::string bound = {};                    ///< of kCondition: a number, or a word for == and !=

  bool operator==(const TargetEncoding&) const = default;
};

/// What is known of a table. Saved as part of an Encoding (open.h).
struct TableEncoding {
  bool header = true;
  char separator = ',';
  std::vector<ColumnEncoding> columns = {};  ///< in the order of the file
  std::vector<TargetEncoding> targets = {};

  bool operator==(const TableEncoding&) const = default;

  /// What the elements of the field `numbers` are: `distance`, `date:days`, `wind:missing`.
  std::vector<std::string> number_names() const;

  /// Which columns the elements of the field `categories` are.
  std::vector<std::string> category_names() const;
};

struct TableOptions {
  CsvHeader header = CsvHeader::kDetect;
  char separator = 0;  ///< 0 = that of comma, tab, semicolon and bar which the first line has most of
  /// What a model should say: columns by name or by position from 0 (negative: from the end), or a condition on one,
  /// such as `delay>15`, which makes two classes. Empty = the last column.
  std::vector<std::string> targets = {};
  std::vector<std::string> ignore = {};              ///< columns, by name or position
  std::map<std::string, ColumnKind> types = {};      ///< columns, by name or position, whose kind is known
  std::int64_t classes = 0;                          ///< of a target of whole numbers; 0 = the largest + 1
  std::uint64_t max_bytes = std::uint64_t{4} << 30;  ///< of text, unpacked, and of memory; more is refused
};

/// A table, how its columns were taken, and what a user should know of that: a column that was left out, for example.
struct Table {
  DatasetPtr samples = {};
  TableEncoding encoding = {};
  std::vector<std::string> notes = {};  ///< one line each
};

/// One sample per row of CSV files, plain, gzip or zstd, wholly in memory: fields `numbers` F32 {n}, `categories` I64
/// {m} with a limit of classes for each, and one field per target; what a table has none of is left out.
///
/// A file is given by path or by a glob pattern (`train-*-of-*.csv`), whose files are parts of one table with the same
/// columns. It is read twice: to find the kinds of columns, then for the values.
///  - Empty fields, NA, N/A, NaN, null, None and ? are missing.
///  - A column of numbers is a number, unless they are whole and its name ends in `id`: then it is a category.
///  - A column of dates (`2012-01-31`, `2012/01/31`, `31.01.2012`, `01/31/2012`, each with a time or without; `13:45`)
///    is a date; bare digits (YYYYMMDD, YYYYMMDDhhmm, MMDDhhmm, seconds or milliseconds since 1970) only where the
///    name has `date` or `time` in it. It becomes the days since 2000 (without a year: since its first of January), and
///    sine and cosine of its place in the year, the week and the day, as far as it tells them.
///  - Other text is a category. One where most rows have a text of their own is left out, with a note.
///  - A missing number or date is the column's mean, with another number that says so; a missing category is class 0.
///  - A target that is text is a class of a vocabulary, one of few whole numbers from 0 is a class as it is, other
///    numbers are quantities. Rows without a target are left out, with a note.
///
/// Throws IoError if a file cannot be read; Corrupt with file, line and column for ragged rows, and for something else
/// among numbers; InvalidArgument for options that do not fit the file.
Table load_table(const Mirrors& files, const TableOptions& options = {});

/// Another table by the same encoding: a test set, or rows to predict. Columns are found by name, if there is a header;
/// further ones are ignored. A target whose column the file does not have is left out of the schema; a word that the
/// encoding does not know is class 0 of a category, and Corrupt in a target.
DatasetPtr load_table(const Mirrors& files, const TableEncoding& encoding,
                      std::uint64_t max_bytes = std::uint64_t{4} << 30);

}  // namespace trireme::data
