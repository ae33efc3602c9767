#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/commands/commands.h"

namespace trireme::cli {

struct DataTokenizeOptions {
  std::vector<std::string> files = {};  ///< paths or glob patterns, plain or packed
  std::uint32_t vocabulary = 4096;
  std::string tokenizer = {};  ///< a file to use; empty = learn one
  std::string out = "tokens.bin";
  double test_fraction = 0;  ///< of the text, from its end
};

/// `trireme data tokenize TEXT…`: writes a file of 16-bit tokens, the vocabulary, and what load_tokens wants to know of
/// them; with a test fraction, the end of the text into a file of its own. Returns the exit status.
int data_tokenize(const DataTokenizeOptions& options);

/// Adds the command to `data`.
void declare_data_tokenize(CLI::App& data, Action& action);

}  // namespace trireme::cli
