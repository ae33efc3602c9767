#pragma once

#include <string>

#include <torch/nn/module.h>

#include "trireme/layers.h"
#include "trireme/tensor_parallel.h"

namespace trireme::models {

// Layers of transformers that are divided among the processes of a tensor group. What flows between them is divided
// along positions: batch × part of the length × width.

/// What the parts of a transformer block are called in its whole module, and how it computes.
struct BlockShape {
  std::string norm_1, attention, projection, norm_2, widen, narrow;  ///< paths such as "attn.c_attn"
  std::int64_t heads = 1;
  bool causal = false;
  double dropout = 0;
};

/// Self-attention by heads and a layer of four times the width by columns and rows, each behind a norm and beside a
/// shortcut (Korthikanti et al. 2022). Parameters have the names, and the initial values, of the whole block.
class ParallelBlockImpl : public torch::nn::Module {
 public:
  /// `label` stands before the names of the parts in messages. Throws InvalidArgument unless the lanes divide the
  /// heads.
  ParallelBlockImpl(parallel::TensorGroup& group, const torch::nn::Module& whole, BlockShape shape,
                    const std::string& label);

  torch::Tensor forward(const torch::Tensor& part);

 private:
  parallel::TensorGroup& group_;
  BlockShape shape_;
  std::string label_;
  parallel::SequenceLayerNorm norm_1_{nullptr}, norm_2_{nullptr};
  parallel::ColumnParallelLinear attention_{nullptr}, widen_{nullptr};
  parallel::RowParallelLinear projection_{nullptr}, narrow_{nullptr};
};
TORCH_MODULE(ParallelBlock);

/// Returns whether layers made at `place` are divided: its group has more than one lane.
bool is_divided(const LayerPlace& place);

/// Notes the slices of `module`, which is registered at `path`.
void note_slices(const LayerPlace& place, const std::string& path, const torch::nn::Module& module);

/// Makes a block of `whole` at `path`, and returns its forward.
LayerRun divided_block(torch::nn::Module& root, const LayerPlace& place, const std::string& path,
                       const torch::nn::Module& whole, const BlockShape& shape);

/// Random numbers of the group follow from the layer that this thread computes, where it has a seed (LayerSeed).
void seed_from_layer(parallel::TensorGroup& group);

}  // namespace trireme::models
