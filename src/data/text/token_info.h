#pragma once

#include <filesystem>

#include "trireme/sources.h"

namespace trireme::data {

/// Returns the file beside `tokens` that token_info reads: `corpus.bin` has `corpus.json`.
std::filesystem::path token_info_path(const std::filesystem::path& tokens);

/// Writes it. Throws IoError.
void save_token_info(const std::filesystem::path& tokens, const TokenInfo& info);

}  // namespace trireme::data
