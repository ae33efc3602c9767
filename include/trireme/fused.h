#pragma once

// Functions of tensors that move less memory than LibTorch's own, one after the other, would: for models of your own.
// On a GPU, in a build with a CUDA compiler, each is a kernel or two; elsewhere they are LibTorch's, with the same
// results up to rounding. Gradients are as for any function of LibTorch.

#include <torch/types.h>

namespace trireme {

/// What `add_layer_norm` gives.
struct AddedNorm {
  torch::Tensor sum;     ///< x + branch
  torch::Tensor normed;  ///< that, normalised over the last dimension; under autocast in its precision
};

/// The end of a branch beside a shortcut, and the beginning of the next. `scale` and `offset` are those of the
/// normalisation, of as many elements as the last dimension has.
AddedNorm add_layer_norm(const torch::Tensor& x, const torch::Tensor& branch, const torch::Tensor& scale,
                         const torch::Tensor& offset, double epsilon = 1e-5);

/// Whether it would be one kernel for these, of a network whose blocks are worth leaving such sums to.
bool adds_when_normalising(const torch::Tensor& x, const torch::Tensor& branch);

/// The normalisation alone.
torch::Tensor layer_norm(const torch::Tensor& x, const torch::Tensor& scale, const torch::Tensor& offset,
                         double epsilon = 1e-5);

/// The mean cross entropy of `logits`, rows × classes, in any precision, computed in float32. Probabilities are never
/// stored: on a GPU backward replaces the logits by their gradient, so they cannot be used after it.
torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets);

/// The same where nobody needs the logits any more: on a GPU they become their gradient at once, in one pass over
/// memory instead of two, if gradients are wanted. `factor` is what the loss will be multiplied by before backward;
/// with another one the gradient is right, too, and costs a pass more.
torch::Tensor last_cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets, double factor = 1);

}  // namespace trireme
