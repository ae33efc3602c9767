#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace trireme::data {

/// A value of R: of the many kinds those that data consists of.
struct RValue {
  enum class Kind { kNull, kIntegers, kReals, kStrings, kList, kSymbol };

  Kind kind = Kind::kNull;
  std::vector<std::int32_t> integers = {};  ///< also logical values; a missing one is the least there is
  std::vector<double> reals = {};
  std::vector<std::string> strings = {};  ///< a missing one is "NA"
  std::vector<RValue> items = {};
  std::string symbol = {};
  std::vector<std::pair<std::string, RValue>> attributes = {};

  /// The attribute of this name; null if there is none.
  const RValue* attribute(std::string_view name) const;

  /// The item of a list, or the column of a data frame, of this name; null if there is none.
  const RValue* item(std::string_view name) const;
};

/// Reads what R's serialize() wrote in XDR format, version 2 or 3. Throws Corrupt, beginning with `where` and with the
/// offset. Memory and recursion are bounded by what the bytes hold.
RValue parse_r(Bytes bytes, const std::string& where);

/// Reads the value `name` of the lazy-load files of an R package: `base`.rdx says where it is in `base`.rdb. Throws
/// IoError, Corrupt with file and offset, or InvalidArgument that lists the names there are.
RValue load_r(const std::filesystem::path& base, const std::string& name);

}  // namespace trireme::data
