#include "data/text/bpe_training.h"

#include <algorithm>
#include <queue>

#include "base/error.h"
#include "data/text/words.h"

namespace trireme::data {
namespace {

constexpr std::size_t kLongestCounted = 256;  // bytes; longer ones are not words of a language

/// Learns merges: words as lists of tokens, and for each pair how often it occurs and in which words.
class BpeTrainer {
 public:
  explicit BpeTrainer(const WordCounts& words) {
    std::vector<std::pair<std::string_view, std::uint64_t>> sorted(words.counts().begin(), words.counts().end());
    std::ranges::sort(sorted);  // a table's own order would differ between libraries
    for (const auto& [text, count] : sorted) {
      Word word{.count = count};
      for (const char byte : text) word.tokens.push_back(static_cast<unsigned char>(byte));
      words_.push_back(std::move(word));
    }
    for (std::uint32_t i = 0; i < words_.size(); ++i) {
      for (std::size_t k = 0; k + 1 < words_[i].tokens.size(); ++k) change(i, k, +1);
    }
    for (const auto& [pair, found] : pairs_) offer(pair, found.count);
  }

  /// The next merge; false if no pair occurs twice.
  bool next(Token result, std::pair<Token, Token>& merge) {
    while (!best_.empty()) {
      const Offer top = best_.top();
      best_.pop();
      const auto found = pairs_.find(top.pair);
      if (found == pairs_.end()) continue;
      if (found->second.count != top.count) {  // it lost some since it was offered
        offer(top.pair, found->second.count);
        continue;
      }
      merge = {static_cast<Token>(top.pair >> 32), static_cast<Token>(top.pair)};
      join(merge, result, std::move(found->second.words));
      return true;
    }
    return false;
  }

 private:
  struct Word {
    std::vector<Token> tokens = {};
    std::uint64_t count = 0;
  };
  struct Found {
    std::uint64_t count = 0;
    std::vector<std::uint32_t> words = {};  // where it occurs or did; some more than once
  };
  struct Offer {
    std::uint64_t count = 0;
    std::uint64_t pair = 0;
    bool operator<(const Offer& other) const { return count != other.count ? count < other.count : pair > other.pair; }
  };

  static std::uint64_t key(Token left, Token right) { return std::uint64_t{left} << 32 | right; }

  void offer(std::uint64_t pair, std::uint64_t count) {
    if (count >= 2) best_.push({.count = count, .pair = pair});
  }

  /// The pair at `k` of a word occurs once more, or less.
  void change(std::uint32_t number, std::size_t k, int by) {
    const Word& word = words_[number];
    const std::uint64_t pair = key(word.tokens[k], word.tokens[k + 1]);
    Found& found = pairs_[pair];
    if (by < 0) {
      found.count -= word.count;
      return;
    }
    found.count += word.count;
    if (found.words.empty() || found.words.back() != number) found.words.push_back(number);
  }

  void join(const std::pair<Token, Token>& merge, Token result, std::vector<std::uint32_t> where) {
    std::ranges::sort(where);
    where.erase(std::unique(where.begin(), where.end()), where.end());
    std::vector<std::uint64_t> grown;
    for (const std::uint32_t number : where) {
      std::vector<Token>& tokens = words_[number].tokens;
      const auto occurs = [&](std::size_t k) {
        return k + 1 < tokens.size() && tokens[k] == merge.first && tokens[k + 1] == merge.second;
      };
      std::size_t k = 0;
      while (k < tokens.size() && !occurs(k)) ++k;
      if (k == tokens.size()) continue;
      for (std::size_t i = 0; i + 1 < tokens.size(); ++i) change(number, i, -1);
      std::vector<Token> joined;
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        const bool here = occurs(i);
        joined.push_back(here ? result : tokens[i]);
        if (here) ++i;
      }
      tokens = std::move(joined);
      for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
        change(number, i, +1);
        if (tokens[i] == result || tokens[i + 1] == result) grown.push_back(key(tokens[i], tokens[i + 1]));
      }
    }
    pairs_.erase(key(merge.first, merge.second));
    std::ranges::sort(grown);
    grown.erase(std::unique(grown.begin(), grown.end()), grown.end());
    for (const std::uint64_t pair : grown) offer(pair, pairs_[pair].count);
  }

  std::vector<Word> words_;
  std::unordered_map<std::uint64_t, Found> pairs_;
  std::priority_queue<Offer> best_;  // counts may have fallen since, never risen
};

}  // namespace

void WordCounts::add(std::string_view text) {
  while (!text.empty()) {
    const std::size_t size = first_word(text);
    if (size <= kLongestCounted) ++counts_[std::string(text.substr(0, size))];
    text.remove_prefix(size);
  }
}

Tokenizer train_bpe(const WordCounts& words, Token vocabulary) {
  if (vocabulary < 256 || vocabulary > 65536) {
    fail<InvalidArgument>("a vocabulary of {}: expected 256 to 65536, so that a token fits in 16 bits", vocabulary);
  }
  BpeTrainer trainer(words);
  std::vector<std::pair<Token, Token>> merges;
  std::pair<Token, Token> merge;
  while (256 + merges.size() < vocabulary && trainer.next(static_cast<Token>(256 + merges.size()), merge)) {
    merges.push_back(merge);
  }
  return Tokenizer(merges);
}

}  // namespace trireme::data
