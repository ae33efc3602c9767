#pragma once

#include <torch/types.h>

#include "trireme/random.h"

#include "cli/start/trained_run.h"

namespace trireme::app {

/// Continues `use.prompt` with a trained language model, and prints the text as it is made on standard output. Throws
/// InvalidArgument (a prompt without tokens, a tokenizer of another vocabulary), IoError, Corrupt.
void generate(const cli::ModelUse& use);

struct Choice {
  double temperature = 1;   ///< 0 = the likeliest
  std::uint32_t top_k = 0;  ///< among this many of the likeliest; 0 = all
};

/// Returns a token drawn by its `logits` {vocabulary}, on the CPU.
std::int64_t choose_token(const torch::Tensor& logits, const Choice& choice, RandomStream& random);

}  // namespace trireme::app
