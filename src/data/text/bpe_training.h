#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "data/text/tokenizer.h"

namespace trireme::data {

/// Counts the words of text, of which a tokenizer is learned. Not thread-safe.
class WordCounts {
 public:
  /// Adds a text; words do not go on from one to the next.
  void add(std::string_view text);

  const std::unordered_map<std::string, std::uint64_t>& counts() const { return counts_; }

 private:
  std::unordered_map<std::string, std::uint64_t> counts_;
};

/// Learns a vocabulary of `vocabulary` tokens: the 256 bytes, then again and again the pair of tokens that occurs most
/// often within words (of equals the one whose numbers are smaller), until there are enough, or no pair occurs twice.
/// Depends on the counts alone. Throws InvalidArgument unless `vocabulary` is from 256 to 65536.
Tokenizer train_bpe(const WordCounts& words, Token vocabulary);

}  // namespace trireme::data
