#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/safetensors/safetensors.h"

namespace trireme::checkpoint {

/// A tensor of GPT-2 as it is published, and what it is called in our `gpt` models.
struct PublishedTensor {
  std::string name = {};    ///< ours: "h.0.attn.c_attn.weight"; empty = we have none (masks, the tied last layer)
  bool transposed = false;  ///< published as inputs × outputs, ours are outputs × inputs
  bool positions = false;   ///< of the embedding of positions: a model with a shorter context takes the first rows
};

/// Returns what each of `tensors` is to us if they are GPT-2 as Hugging Face publishes it (and those derived from it):
/// layers are Conv1D, whose weights are transposed; names may begin with `transformer.`; `lm_head.weight` is
/// `wte.weight`; `attn.bias` and `attn.masked_bias` are masks. Empty if they are anything else. Pure.
std::vector<PublishedTensor> recognise_gpt2(const std::vector<TensorView>& tensors);

}  // namespace trireme::checkpoint
