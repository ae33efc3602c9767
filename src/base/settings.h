#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// A name with numbers that belong to it, as text `name:key=number,key=number`: "gpt-tiny:layers=4,dropout=0.1".
struct Settings {
  std::string name = {};
  std::map<std::string, double> numbers = {};

  /// Throws InvalidArgument if what stands behind the colon is not of that form.
  static Settings parse(std::string_view text);

  /// Throws InvalidArgument, with what was probably meant, if there is a key that is not among `keys`.
  void check_keys(const std::vector<std::string>& keys) const;

  /// The number of `key`, or `otherwise`. The second throws InvalidArgument if it is not whole, or below 1.
  double number(const std::string& key, double otherwise) const;
  std::int64_t count(const std::string& key, std::int64_t otherwise) const;
};

}  // namespace trireme
