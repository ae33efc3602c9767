// GPT-2's own files: vocab.json, from pieces to numbers, and merges.txt, a pair of pieces a line, in order. Pieces are
// written as text in which each byte is a printable character.
#include <array>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "data/text/tokenizer.h"
#include "data/text/unicode.h"

namespace trireme::data {
namespace {

constexpr std::size_t kMostPieces = 1u << 20;

bool stands_for_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/// The byte that a character of these files stands for: printable ones for themselves, the others, in order, are 256
/// and on. 256 if it stands for none.
unsigned byte_of(char32_t point) {
  if (point < 256) return stands_for_itself(point) ? point : 256;
  char32_t next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (!stands_for_itself(byte) && next++ == point) return byte;
  }
  return 256;
}

/// The bytes that a piece stands for; empty if it is not written that way, as special ones are.
std::string bytes_of(std::string_view written) {
  std::string bytes;
  while (!written.empty()) {
    const Char next = next_char(written);
    const unsigned byte = byte_of(next.point);
    if (byte == 256) return {};
    bytes += static_cast<char>(byte);
    written.remove_prefix(next.bytes);
  }
  return bytes;
}

}  // namespace

Tokenizer Tokenizer::load_gpt2(const std::filesystem::path& vocabulary, const std::filesystem::path& merges) {
  const nlohmann::json object = nlohmann::json::parse(read_file(vocabulary));
  std::unordered_map<std::string, Token> numbers;
  Tokenizer result;
  result.pieces_.clear();
  for (const auto& [written, number] : object.items()) {
    const Token token = number.get<Token>();
    if (token >= object.size() || token >= kMostPieces)
      fail<Corrupt>("'{}' is token {} of {}", written, token, object.size());
    if (token >= result.size()) result.pieces_.resize(token + 1);
    std::string bytes = bytes_of(written);
    if (bytes.empty() || (written.starts_with("<|") && written.ends_with("|>"))) {
      result.pieces_[token] = written;
      result.special_[written] = token;
      continue;
    }
    result.pieces_[token] = bytes;
    numbers[std::move(bytes)] = token;
  }
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const auto found = numbers.find(std::string(1, static_cast<char>(byte)));
    if (found == numbers.end()) fail<Corrupt>("byte {} is no token", byte);
    result.bytes_[byte] = found->second;
  }
  const std::string lines = read_file(merges);
  std::size_t number = 0;
  for (std::string_view rest = lines; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    ++number;
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const std::size_t blank = line.find(' ');
    const std::string left = bytes_of(line.substr(0, blank));
    const std::string right = blank == std::string_view::npos ? "" : bytes_of(line.substr(blank + 1));
    const auto l = numbers.find(left);
    const auto r = numbers.find(right);
    const auto joined = numbers.find(left + right);
    if (l == numbers.end() || r == numbers.end() || joined == numbers.end()) {
      fail<Corrupt>("{}, line {}: '{}' is not two tokens that make one", merges.string(), number, line);
    }
    result.add({.left = l->second, .right = r->second, .result = joined->second});
  }
  result.check(vocabulary);
  return result;
}

}  // namespace trireme::data
