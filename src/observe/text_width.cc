#include "observe/text_width.h"

#include <cstddef>
#include <cstdint>

namespace trireme::observe {
namespace {

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t bytes = 1;
  bool valid = false;
};

/// Returns the first code point of `text`, which is not empty (RFC 3629: no overlong forms, no surrogates).
CodePoint first_code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  std::uint32_t value = lead & (0xFFu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = (value << 6) | (byte(i) & 0x3F);
  }
  const bool overlong = value < (bytes == 3 ? 0x800u : bytes == 4 ? 0x10000u : 0x80u);
  if (overlong || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return {};
  return {value, bytes, true};
}

int width(std::uint32_t code_point) {
  if (code_point < 0x1100) return 1;
  const bool punctuation = code_point >= 0x2010 && code_point <= 0x2027;  // dashes, quotes, the ellipsis
  const bool box_drawing = code_point >= 0x2500 && code_point <= 0x257F;  // the bar
  return punctuation || box_drawing ? 1 : 2;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string clean;
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    const bool control = point.value < 0x20 || (point.value >= 0x7F && point.value < 0xA0);
    if (!point.valid) {
      clean += '?';
    } else if (control) {
      clean += ' ';
    } else {
      clean += text.substr(0, point.bytes);
    }
    text.remove_prefix(point.bytes);
  }
  return clean;
}

int columns_of(std::string_view text) {
  int columns = 0;
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    columns += width(point.value);
    text.remove_prefix(point.bytes);
  }
  return columns;
}

std::string fit(std::string_view text, int columns) {
  if (columns <= 0) return "";
  if (columns_of(text) <= columns) return std::string(text);
  std::string_view rest = text;
  int room = columns - 1;  // for the ellipsis
  while (true) {           // ends before `rest` does: the whole text does not fit
    const CodePoint point = first_code_point(rest);
    room -= width(point.value);
    if (room < 0) return std::string(text.substr(0, text.size() - rest.size())) + "…";
    rest.remove_prefix(point.bytes);
  }
}

}  // namespace trireme::observe
