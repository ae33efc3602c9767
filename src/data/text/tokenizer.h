#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trireme::data {

using Token = std::uint32_t;

/// Text to tokens and back: byte-level byte pair encoding (Sennrich et al. 2016; Radford et al. 2019). Any bytes
/// survive: decode(encode(x)) == x. Immutable, so thread-safe; copies are expensive.
class Tokenizer {
 public:
  /// Two tokens that become one, where they are neighbours in a word. Earlier merges go first.
  struct Merge {
    Token left = 0;
    Token right = 0;
    Token result = 0;
  };

  /// Each byte a token, and nothing else.
  Tokenizer();

  /// Bytes are the tokens 0 to 255, and each merge makes the next one.
  explicit Tokenizer(const std::vector<std::pair<Token, Token>>& merges);

  /// Reads a file that save() wrote; or GPT-2's vocabulary, if `path` is its vocab.json (merges.txt lies beside it) or
  /// the folder of both. Throws IoError, or Corrupt naming the file and what is wrong.
  static Tokenizer load(const std::filesystem::path& path);

  /// Throws IoError.
  void save(const std::filesystem::path& path) const;

  Token size() const { return static_cast<Token>(pieces_.size()); }  ///< of the vocabulary: tokens are below it

  /// Never makes special tokens, such as GPT-2's end of text, out of text that spells them.
  std::vector<Token> encode(std::string_view text) const;

  /// Returns the bytes that the tokens stand for. Throws InvalidArgument if one is not below size().
  std::string decode(std::span<const Token> tokens) const;

  std::string_view piece(Token token) const { return pieces_[token]; }

  /// The token of a special text (`<|endoftext|>`); size() if there is none.
  Token special(std::string_view text) const;

 private:
  friend class Encoder;
  struct Rank {
    std::uint32_t rank = 0;
    Token result = 0;
  };

  void add(const Merge& merge);
  void check(const std::filesystem::path& path) const;
  static Tokenizer load_own(const std::filesystem::path& path);
  static Tokenizer load_gpt2(const std::filesystem::path& vocabulary, const std::filesystem::path& merges);
  static std::uint64_t key(Token left, Token right) { return std::uint64_t{left} << 32 | right; }

  std::vector<Token> bytes_;                       // by byte
  std::vector<Merge> merges_;                      // by rank
  std::unordered_map<std::uint64_t, Rank> ranks_;  // by key(left, right)
  std::vector<std::string> pieces_;                // by token: the bytes it stands for
  std::map<std::string, Token, std::less<>> special_;
};

/// Encodes much text of one tokenizer: remembers words, of which most come again. Not thread-safe.
class Encoder {
 public:
  explicit Encoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// Appends the tokens of `text` to `out`.
  void encode(std::string_view text, std::vector<Token>& out);

 private:
  void encode_word(std::string_view word, std::vector<Token>& out) const;

  const Tokenizer& tokenizer_;
  std::unordered_map<std::string, std::vector<Token>> words_;
  std::size_t remembered_ = 0;  // bytes of words
};

}  // namespace trireme::data
