#include <algorithm>
#include <queue>

#include "data/text/tokenizer.h"
#include "data/text/words.h"

namespace trireme::data {
namespace {

constexpr std::size_t kMostRemembered = 64u << 20;  // bytes of words; then it forgets all and begins again
constexpr std::size_t kLongestRemembered = 64;      // a longer word hardly comes twice

}  // namespace

void Encoder::encode(std::string_view text, std::vector<Token>& out) {
  while (!text.empty()) {
    const std::string_view word = text.substr(0, first_word(text));
    text.remove_prefix(word.size());
    if (word.size() > kLongestRemembered) {
      encode_word(word, out);
      continue;
    }
    auto [known, is_new] = words_.try_emplace(std::string(word));
    if (is_new) {
      encode_word(word, known->second);
      remembered_ += 2 * word.size() + 64;
    }
    out.insert(out.end(), known->second.begin(), known->second.end());
    if (remembered_ > kMostRemembered) {
      words_.clear();
      remembered_ = 0;
    }
  }
}

/// Joins the pair of the earliest merge, of several the leftmost, until none is left. Pairs wait in a heap, so a word
/// of n bytes takes n log n steps.
void Encoder::encode_word(std::string_view word, std::vector<Token>& out) const {
  struct Symbol {
    Token token;
    std::size_t next;
    std::size_t previous;
    bool alive = true;
  };
  struct Candidate {
    std::uint32_t rank;
    std::size_t at;
    Token left;
    Token right;
    Token result;
    bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
  };
  const std::size_t none = word.size();
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  for (std::size_t i = 0; i < word.size(); ++i) {
    symbols.push_back({.token = tokenizer_.bytes_[static_cast<unsigned char>(word[i])],
                       .next = i + 1,
                       .previous = i == 0 ? none : i - 1});
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> waiting;
  const auto consider = [&](std::size_t at) {
    if (at == none || symbols[at].next == none) return;
    const Token left = symbols[at].token;
    const Token right = symbols[symbols[at].next].token;
    const auto merge = tokenizer_.ranks_.find(Tokenizer::key(left, right));
    if (merge == tokenizer_.ranks_.end()) return;
    waiting.push({merge->second.rank, at, left, right, merge->second.result});
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) consider(i);
  while (!waiting.empty()) {
    const Candidate best = waiting.top();
    waiting.pop();
    Symbol& left = symbols[best.at];
    if (!left.alive || left.token != best.left || left.next == none) continue;
    Symbol& right = symbols[left.next];
    if (right.token != best.right) continue;  // one of the two was joined with another one meanwhile
    left.token = best.result;
    right.alive = false;
    left.next = right.next;
    if (left.next != none) symbols[left.next].previous = best.at;
    consider(left.previous);
    consider(best.at);
  }
  for (std::size_t i = 0; i != none; i = symbols[i].next) out.push_back(symbols[i].token);
}

}  // namespace trireme::data
