#pragma once

#include <cstddef>
#include <string_view>

namespace trireme::data {

/// What a character is to GPT-2's pre-tokenisation: \p{L}, \p{N}, \s or none of them.
enum class CharClass { kLetter, kNumber, kSpace, kOther };

CharClass class_of(char32_t point);

constexpr char32_t kNotUnicode = 0xffffffff;  ///< stands for a byte that is no part of well-formed UTF-8

/// One character of a text.
struct Char {
  std::size_t bytes = 0;
  char32_t point = 0;
  CharClass kind = CharClass::kOther;
};

/// Returns the character at the front of `text`, which is not empty. A byte that is no part of well-formed UTF-8 is one
/// by itself, of no class.
Char next_char(std::string_view text);

}  // namespace trireme::data
