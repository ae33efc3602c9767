#include "cluster/resolvers/variable_reader.h"

#include <cctype>
#include <charconv>

#include <fmt/format.h>

#include "base/error.h"

namespace trireme::cluster {

std::string VariableReader::text(const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? "" : found->second;
}

std::optional<std::uint32_t> VariableReader::number(const std::string& name) const {
  const std::string value = text(name);
  if (value.empty()) return std::nullopt;
  std::uint32_t result = 0;
  const auto [stopped, problem] = std::from_chars(value.data(), value.data() + value.size(), result);
  if (problem != std::errc() || stopped != value.data() + value.size()) {
    fail<InvalidArgument>("{}='{}': expected a number", name, value);
  }
  return result;
}

std::uint32_t VariableReader::need_number(const std::string& name) const {
  const auto value = number(name);
  if (!value) fail<InvalidArgument>("{} is not set", name);
  return *value;
}

Rank VariableReader::rank(const std::string& name, const std::string& count_name, std::uint32_t count) const {
  const std::uint32_t value = need_number(name);
  if (value >= count) fail<InvalidArgument>("{}={}, but {}={}: ranks count from 0", name, value, count_name, count);
  return value;
}

net::Address VariableReader::address(const std::string& host_name, const std::string& port_name) const {
  const std::uint32_t port = number(port_name).value_or(0);
  if (port > 65535) fail<InvalidArgument>("{}={}: a port is at most 65535", port_name, port);
  return {.host = text(host_name), .port = static_cast<std::uint16_t>(port)};
}

std::string VariableReader::missing(const std::vector<std::string>& names) const {
  std::string list;
  for (const std::string& name : names) {
    if (!has(name)) list += (list.empty() ? "" : ", ") + name;
  }
  return list;
}

std::string file_word(const std::vector<std::string>& words) {
  constexpr std::size_t kLongest = 80;
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a
  std::string result;
  for (const std::string& word : words) {
    if (!result.empty()) result += '-';
    for (const char letter : word) {
      const auto code = static_cast<unsigned char>(letter);
      hash = (hash ^ code) * 1099511628211u;
      result += std::isalnum(code) != 0 || letter == '.' || letter == '_' ? letter : '_';
    }
  }
  if (result.size() <= kLongest) return result;
  return fmt::format("{}-{:016x}", result.substr(0, kLongest), hash);
}

}  // namespace trireme::cluster
