#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/resolvers/launcher_place.h"

namespace trireme::cluster {

/// Reads variables by their names; an empty one counts as not set.
class VariableReader {
 public:
  explicit VariableReader(const Variables& variables) : variables_(variables) {}

  bool has(const std::string& name) const { return !text(name).empty(); }

  /// Returns the value; empty if it is not set.
  std::string text(const std::string& name) const;

  /// Returns the value as a whole number from 0; nullopt if it is not set. Throws InvalidArgument that names it.
  std::optional<std::uint32_t> number(const std::string& name) const;

  /// The same for one that has to be set. Throws InvalidArgument.
  std::uint32_t need_number(const std::string& name) const;

  /// Returns a rank below `count`, the value of `count_name`. Throws InvalidArgument that names both.
  Rank rank(const std::string& name, const std::string& count_name, std::uint32_t count) const;

  /// Returns `host` and the port in `port_name` (0 if that is not set). Throws InvalidArgument that names it.
  net::Address address(const std::string& host_name, const std::string& port_name) const;

  /// Returns those of `names` that are not set, as "A, B"; empty if all are.
  std::string missing(const std::vector<std::string>& names) const;

 private:
  const Variables& variables_;
};

/// Returns `words`, with dashes between them, as part of a file name: other characters than letters, digits, '.', '_'
/// become '_'; what is long is cut, and told apart by a hash.
std::string file_word(const std::vector<std::string>& words);

}  // namespace trireme::cluster
