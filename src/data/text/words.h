#pragma once

#include <cstddef>
#include <string_view>

namespace trireme::data {

/// Returns how many bytes the first word of `text` has, which is not empty. A word is what GPT-2's expression matches:
///
///     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///
/// Merges never cross words. Two deviations: letters and numbers are those of our version of Unicode (unicode.cc), and
/// bytes that are not UTF-8 are kept as they are, where GPT-2 replaces them.
std::size_t first_word(std::string_view text);

/// Returns where a long text can be cut so that both halves have the same words as the whole: before the last space
/// that follows something else; 0 if there is none.
std::size_t last_cut(std::string_view text);

}  // namespace trireme::data
