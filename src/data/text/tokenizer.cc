#include "data/text/tokenizer.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"

namespace trireme::data {
namespace {

constexpr Token kMostTokens = 1u << 20;
constexpr std::size_t kLongestPiece = 1u << 16;  // merges could double a piece's length each time

}  // namespace

Tokenizer::Tokenizer() : Tokenizer(std::vector<std::pair<Token, Token>>{}) {}

Tokenizer::Tokenizer(const std::vector<std::pair<Token, Token>>& merges) {
  for (Token byte = 0; byte < 256; ++byte) {
    bytes_.push_back(byte);
    pieces_.emplace_back(1, static_cast<char>(byte));
  }
  for (const auto& [left, right] : merges) add({.left = left, .right = right, .result = size()});
}

void Tokenizer::add(const Merge& merge) {
  const Token most = size();
  if (merge.left >= most || merge.right >= most || merge.result >= kMostTokens) {
    fail<Corrupt>("merge {} joins {} and {} to {}, but only {} tokens are known", merges_.size(), merge.left,
                  merge.right, merge.result, most);
  }
  std::string piece = pieces_[merge.left] + pieces_[merge.right];
  if (piece.empty() || piece.size() > kLongestPiece) {
    fail<Corrupt>("merge {} makes a token of {} bytes", merges_.size(), piece.size());
  }
  if (merge.result >= pieces_.size()) pieces_.resize(merge.result + 1);
  pieces_[merge.result] = std::move(piece);
  const auto rank = static_cast<std::uint32_t>(merges_.size());
  ranks_.try_emplace(key(merge.left, merge.right), Rank{.rank = rank, .result = merge.result});
  merges_.push_back(merge);
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  try {
    if (std::filesystem::is_directory(path)) return load_gpt2(path / "vocab.json", path / "merges.txt");
    const std::filesystem::path merges = path.parent_path() / "merges.txt";
    if (path.filename() == "vocab.json" && std::filesystem::exists(merges)) return load_gpt2(path, merges);
    return load_own(path);
  } catch (const nlohmann::json::exception& problem) {
    fail<Corrupt>("{} is no vocabulary of a tokenizer: {}", path.string(), problem.what());
  } catch (const Corrupt& problem) {
    fail<Corrupt>("{} is no vocabulary of a tokenizer: {}", path.string(), problem.what());
  }
}

Tokenizer Tokenizer::load_own(const std::filesystem::path& path) {
  const nlohmann::json object = nlohmann::json::parse(read_file(path));
  if (object.at("format") != "trireme-bpe") throw Corrupt("its format is not trireme-bpe");
  Tokenizer result;
  const auto bytes = object.at("bytes").get<std::vector<Token>>();
  if (bytes.size() != 256) fail<Corrupt>("{} tokens for the 256 bytes", bytes.size());
  result.pieces_.assign(256, "");
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (bytes[byte] >= kMostTokens) fail<Corrupt>("byte {} is token {}", byte, bytes[byte]);
    if (bytes[byte] >= result.size()) result.pieces_.resize(bytes[byte] + 1);
    result.pieces_[bytes[byte]] = static_cast<char>(byte);
  }
  result.bytes_ = bytes;
  for (const nlohmann::json& merge : object.at("merges")) {
    result.add({.left = merge.at(0), .right = merge.at(1), .result = merge.at(2)});
  }
  for (const auto& [text, token] : object.at("special").items()) {
    const Token number = token;
    if (number >= kMostTokens) fail<Corrupt>("'{}' is token {}", text, number);
    if (number >= result.size()) result.pieces_.resize(number + 1);
    result.pieces_[number] = text;
    result.special_[text] = number;
  }
  result.check(path);
  return result;
}

/// Every number below the size is a token.
void Tokenizer::check(const std::filesystem::path& path) const {
  for (std::size_t token = 0; token < pieces_.size(); ++token) {
    if (pieces_[token].empty()) fail<Corrupt>("{}: token {} stands for nothing", path.filename().string(), token);
  }
}

void Tokenizer::save(const std::filesystem::path& path) const {
  nlohmann::ordered_json object = {{"format", "trireme-bpe"}, {"vocabulary", size()}, {"bytes", bytes_}};
  nlohmann::ordered_json& merges = object["merges"] = nlohmann::ordered_json::array();
  for (const Merge& merge : merges_) merges.push_back({merge.left, merge.right, merge.result});
  object["special"] = special_.empty() ? nlohmann::ordered_json::object() : nlohmann::ordered_json(special_);
  write_file_atomically(path, as_bytes(object.dump() + "\n"));
}

std::vector<Token> Tokenizer::encode(std::string_view text) const {
  std::vector<Token> tokens;
  Encoder(*this).encode(text, tokens);
  return tokens;
}

std::string Tokenizer::decode(std::span<const Token> tokens) const {
  std::string text;
  for (const Token token : tokens) {
    if (token >= size()) fail<InvalidArgument>("token {}: the vocabulary has {}", token, size());
    text += pieces_[token];
  }
  return text;
}

Token Tokenizer::special(std::string_view text) const {
  const auto found = special_.find(text);
  return found == special_.end() ? size() : found->second;
}

}  // namespace trireme::data
