#include "data/text/words.h"

#include "data/text/unicode.h"

namespace trireme::data {
namespace {

std::size_t contraction(std::string_view text) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.starts_with(ending)) return ending.size();
  }
  return 0;
}

/// How many bytes from `from` on are of this class.
std::size_t run_of(CharClass kind, std::string_view text, std::size_t from) {
  std::size_t at = from;
  while (at < text.size()) {
    const Char next = next_char(text.substr(at));
    if (next.kind != kind) break;
    at += next.bytes;
  }
  return at - from;
}

/// Spaces, without the last one if something follows it: that belongs to what follows.
std::size_t spaces(std::string_view text) {
  std::size_t at = 0;
  std::size_t last = 0;
  while (at < text.size()) {
    const Char next = next_char(text.substr(at));
    if (next.kind != CharClass::kSpace) break;
    last = at;
    at += next.bytes;
  }
  return at == text.size() || last == 0 ? at : last;
}

}  // namespace

std::size_t first_word(std::string_view text) {
  if (const std::size_t ending = contraction(text)) return ending;
  const std::size_t blank = text.front() == ' ' && text.size() > 1 ? 1 : 0;
  const Char first = next_char(text.substr(blank));
  if (first.kind != CharClass::kSpace) return blank + run_of(first.kind, text, blank);
  return spaces(text);
}

std::size_t last_cut(std::string_view text) {
  for (std::size_t at = text.size(); at-- > 1;) {
    // Of the spaces only those of one byte: no need to decode backwards.
    const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
    const auto before = static_cast<unsigned char>(text[at - 1]);
    if (is_space(text[at]) && before < 0x80 && !is_space(text[at - 1])) return at;
  }
  return 0;
}

}  // namespace trireme::data
