#pragma once

#include <span>
#include <vector>

#include <torch/nn/module.h>

#include "cluster/strategy_choice.h"

namespace trireme {

using BufferPolicy = cluster::BufferPolicy;

/// A module's buffers, each once, by what can be done with them.
struct ModelBuffers {
  std::vector<torch::Tensor> means;   ///< float32: running means and variances; their mean makes sense
  std::vector<torch::Tensor> others;  ///< counts and the like

  explicit ModelBuffers(const torch::nn::Module& module);

  std::size_t mean_floats() const;  ///< elements of all `means` together
};

/// Copies all of `tensors` to `flat`, one after the other, and back. The sizes fit.
void pack(const std::vector<torch::Tensor>& tensors, std::span<float> flat);
void unpack(std::span<const float> flat, const std::vector<torch::Tensor>& tensors);

/// The buffers while a worker computes its lanes of a step: every lane starts from the ones the step started from, and
/// what the lanes make of them is summed along the lanes' tree, as gradients are, so that the sum does not depend on
/// who computed which lane. Buffer level 0 of the sum (see summation_schedule.h) is given by the caller.
class LaneBuffers {
 public:
  explicit LaneBuffers(const torch::nn::Module& module) : buffers_(module) {}

  void begin_step();

  /// Puts the buffers back to what they were at the step's begin.
  void begin_lane();

  /// The lane's forward passes are done: its means go to `level`.
  void end_lane(std::size_t level, std::span<float> level0);

  /// `level - 1` += `level`.
  void add(std::size_t level, std::span<float> level0);

  /// Puts the buffers back to what they were at the begin of a step that was given up; nothing if there was none.
  void rewind();

  /// Leaves in the module, of what cannot be averaged, what the first lane made of it.
  void end_step();

 private:
  torch::Tensor sums(std::size_t level, std::span<float> level0);

  ModelBuffers buffers_;
  std::vector<torch::Tensor> begin_;       // means, then others, at the step's begin
  std::vector<torch::Tensor> first_lane_;  // others, after it; empty before
  std::vector<torch::Tensor> scratch_;     // level - 1: sums of right subtrees
};

}  // namespace trireme
