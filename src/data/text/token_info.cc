#include "data/text/token_info.h"

#include <nlohmann/json.hpp>

#include "trireme/sources.h"

#include "base/error.h"
#include "base/file.h"

namespace trireme::data {

std::filesystem::path token_info_path(const std::filesystem::path& tokens) {
  std::filesystem::path path = tokens;
  if (path.extension() == ".gz" || path.extension() == ".zst") path.replace_extension();
  return path.replace_extension(".json");
}

std::optional<TokenInfo> token_info(const std::filesystem::path& tokens) {
  const std::filesystem::path path = token_info_path(tokens);
  if (!std::filesystem::exists(path)) return std::nullopt;
  try {
    const nlohmann::json info = nlohmann::json::parse(read_file(path));
    TokenInfo result{.vocabulary = info.at("vocabulary"),
                     .tokens = info.at("tokens"),
                     .bytes = info.at("bytes"),
                     .tokenizer = info.at("tokenizer")};
    if (result.vocabulary < 1) fail<Corrupt>("{}: a vocabulary of {}", path.string(), result.vocabulary);
    return result;
  } catch (const nlohmann::json::exception& problem) {
    fail<Corrupt>("{} does not describe a file of tokens: {}", path.string(), problem.what());
  }
}

void save_token_info(const std::filesystem::path& tokens, const TokenInfo& info) {
  const nlohmann::ordered_json object = {
      {"vocabulary", info.vocabulary}, {"tokens", info.tokens}, {"bytes", info.bytes}, {"tokenizer", info.tokenizer}};
  write_file_atomically(token_info_path(tokens), as_bytes(object.dump(2) + "\n"));
}

}  // namespace trireme::data
