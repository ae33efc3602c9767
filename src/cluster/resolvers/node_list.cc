#include "cluster/resolvers/node_list.h"

#include <charconv>

#include <fmt/format.h>

#include "base/error.h"

namespace trireme::cluster {
namespace {

constexpr std::size_t kMostNodes = 65536;

[[noreturn]] void bad_list(const std::string& variable, const std::string& text) {
  fail<InvalidArgument>("{}='{}': expected a list of nodes such as n[001,007-015],b2", variable, text);
}

/// At commas that are not inside brackets.
std::vector<std::string> split_outside_brackets(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char letter : text) {
    if (letter == '[') ++depth;
    if (letter == ']') --depth;
    if (letter == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  return parts;
}

std::uint32_t list_number(const std::string& digits, const std::string& variable, const std::string& text) {
  std::uint32_t value = 0;
  const auto [stopped, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || problem != std::errc() || stopped != digits.data() + digits.size()) bad_list(variable, text);
  return value;
}

/// "007-009" as 007, 008, 009: as many digits as the first has.
std::vector<std::string> expand_range(const std::string& range, const std::string& variable, const std::string& text) {
  const auto dash = range.find('-');
  const std::string first = range.substr(0, dash);
  const std::uint32_t from = list_number(first, variable, text);
  const std::uint32_t to = dash == std::string::npos ? from : list_number(range.substr(dash + 1), variable, text);
  if (to < from || to - from >= kMostNodes) bad_list(variable, text);
  std::vector<std::string> numbers;
  for (std::uint32_t number = from; number <= to; ++number) {
    numbers.push_back(fmt::format("{:0>{}}", number, first.size()));
  }
  return numbers;
}

std::vector<std::string> expand_name(const std::string& name, const std::string& variable, const std::string& text) {
  const auto open = name.find('[');
  if (open == std::string::npos) {
    if (name.empty() || name.find(']') != std::string::npos) bad_list(variable, text);
    return {name};
  }
  const auto close = name.find(']', open);
  if (close == std::string::npos) bad_list(variable, text);
  const std::string rest = name.substr(close + 1);
  const std::vector<std::string> endings =
      rest.empty() ? std::vector<std::string>{""} : expand_name(rest, variable, text);
  std::vector<std::string> names;
  for (const std::string& range : split_outside_brackets(name.substr(open + 1, close - open - 1))) {
    for (const std::string& number : expand_range(range, variable, text)) {
      for (const std::string& ending : endings) names.push_back(name.substr(0, open) + number + ending);
      if (names.size() > kMostNodes) bad_list(variable, text);
    }
  }
  return names;
}

}  // namespace

std::vector<std::string> expand_node_list(const std::string& variable, const std::string& text) {
  std::vector<std::string> nodes;
  for (const std::string& part : split_outside_brackets(text)) {
    for (std::string& name : expand_name(part, variable, text)) nodes.push_back(std::move(name));
  }
  return nodes;
}

std::vector<std::uint32_t> expand_tasks_per_node(const std::string& variable, const std::string& text) {
  std::vector<std::uint32_t> tasks;
  for (const std::string& part : split_outside_brackets(text)) {
    const auto times = part.find("(x");
    const bool repeated = times != std::string::npos;
    if (repeated && part.back() != ')') bad_list(variable, text);
    const std::uint32_t count = list_number(part.substr(0, times), variable, text);
    const std::uint32_t nodes =
        repeated ? list_number(part.substr(times + 2, part.size() - times - 3), variable, text) : 1;
    if (tasks.size() + nodes > kMostNodes) bad_list(variable, text);
    tasks.insert(tasks.end(), nodes, count);
  }
  return tasks;
}

}  // namespace trireme::cluster
