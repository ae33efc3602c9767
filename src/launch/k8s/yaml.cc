#include "launch/k8s/yaml.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace trireme::launch {
namespace {

using Json = nlohmann::ordered_json;

bool is_word_of_yaml(std::string text) {
  constexpr std::array<std::string_view, 10> kWords{"true", "false", "null", "yes", "no", "on", "off", "y", "n", "~"};
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::find(kWords, text) != kWords.end();
}

/// A text that begins with a letter or a slash, of which nothing has a meaning in YAML.
bool is_plain(const std::string& text) {
  constexpr std::string_view kBegins = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/";
  constexpr std::string_view kOthers = "0123456789-_./";
  if (text.empty() || kBegins.find(text.front()) == std::string_view::npos || is_word_of_yaml(text)) return false;
  return std::ranges::all_of(text, [&](char c) {
    return kBegins.find(c) != std::string_view::npos || kOthers.find(c) != std::string_view::npos;
  });
}

/// Several lines of printable text, the first of which is not indented.
bool is_block(const std::string& text) {
  if (text.find('\n') == std::string::npos || text.front() == ' ' || text.front() == '\n') return false;
  if (!text.ends_with('\n') || text.ends_with("\n\n")) return false;
  return std::ranges::all_of(text, [](unsigned char c) { return c == '\n' || (c >= 0x20 && c < 0x7f); });
}

std::string block(const std::string& text, const std::string& indent) {
  std::string lines = " |\n";
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end > begin) lines += indent + text.substr(begin, end - begin);
    lines += "\n";
    begin = end + 1;
  }
  return lines;
}

std::string scalar(const Json& value) {
  if (value.is_string() && is_plain(value.get_ref<const std::string&>())) return value.get<std::string>();
  return value.dump(-1, ' ', /*ensure_ascii=*/true);  // JSON's quoting is YAML's too
}

/// What follows "key:" or "-", with the end of the line; `indent` is that of what is inside.
std::string after_mark(const Json& value, const std::string& indent);

std::string members(const Json& object, const std::string& indent) {
  std::string text;
  for (const auto& [key, value] : object.items()) {
    const std::string inside = value.is_array() ? indent : indent + "  ";
    text += indent + scalar(Json(key)) + ":" + after_mark(value, inside);
  }
  return text;
}

std::string items(const Json& array, const std::string& indent) {
  std::string text;
  for (const Json& value : array) {
    if (value.is_object() && !value.empty()) {
      text += indent + "- " + members(value, indent + "  ").substr(indent.size() + 2);
    } else {
      text += indent + "-" + after_mark(value, indent + "  ");
    }
  }
  return text;
}

std::string after_mark(const Json& value, const std::string& indent) {
  if (value.is_object() && !value.empty()) return "\n" + members(value, indent);
  if (value.is_array() && !value.empty()) return "\n" + items(value, indent);
  if (value.is_string() && is_block(value.get_ref<const std::string&>())) {
    return block(value.get_ref<const std::string&>(), indent);
  }
  return " " + scalar(value) + "\n";
}

}  // namespace

std::string to_yaml(const Json& value) {
  if (value.is_object() && !value.empty()) return members(value, "");
  if (value.is_array() && !value.empty()) return items(value, "");
  return scalar(value) + "\n";
}

}  // namespace trireme::launch
