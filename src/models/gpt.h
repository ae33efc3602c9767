#pragma once

#include <cstdint>

#include "trireme/layers.h"

namespace trireme::models {

struct GptOptions {
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t width = 768;
  std::int64_t context = 1024;  ///< the most tokens it sees at once
  std::int64_t vocabulary = 50257;
  double dropout = 0;
};

/// GPT-2 (Radford et al. 2019), with parameters named as its published weights are: wte, wpe, h.0.attn.c_attn, ...,
/// ln_f. The embedding of tokens is also the last layer, so a token costs its row once. From tokens of batch × length
/// to batch × length × vocabulary. Layers: "embedding", "h.0", ..., "head". Throws InvalidArgument if the heads do not
/// divide the width.
LayerList gpt(const GptOptions& options);

}  // namespace trireme::models
