#pragma once

#include <span>
#include <vector>

#include "trireme/model.h"

#include "optim/update_rule.h"
#include "train/strategy/parameter_updates.h"

namespace trireme {

/// A model's trainable parameters as flat host memory with their optimizer state, for strategies in which every worker
/// updates its own. The update is the very code that servers run, so both give the same bits.
///
/// On the CPU the memory is the module's own; on a GPU it is a copy, from which `copy_to_module` brings the new values
/// there.
class HostParameters {
 public:
  /// Throws InvalidArgument if there are none, or one is not float32.
  HostParameters(const torch::nn::Module& module, ParameterUpdates updates);

  std::size_t size() const { return parameters_.size(); }
  std::span<float> values(std::size_t i) { return {host_[i].data_ptr<float>(), elements_[i]}; }
  std::span<const std::size_t> elements() const { return elements_; }  ///< by parameter

  /// Returns what clips the mean of these gradients, sums over `samples`, by parameter: see optim::clip_factor; 1 where
  /// nothing is clipped.
  double clip_factor(std::span<const std::span<const float>> gradients, double samples, Step step) const;

  /// One update of each parameter, in step number `step` of the run, which decides what is pruned. `gradients`, by
  /// parameter, do not overlap them.
  void update(const optim::UpdateInput& input, Step step, std::span<const std::span<const float>> gradients);

  /// The moving averages and the parameters change places, if there are any: `show_own` changes them back. What is
  /// shown is what `values` and the module have.
  void show_averages();
  void show_own();

  /// The moving average of parameter `i`; empty if there is none.
  std::span<float> average(std::size_t i);

  /// Sets those of `values`, as many as parameter `i` has, to zero that are pruned in it.
  void clear_pruned(std::size_t i, std::span<float> values);

  /// Makes the present values of parameter `i` the module's.
  void copy_to_module(std::size_t i);
  void copy_all_to_module();

  /// All of it by name, on the host, not copied: "model/<parameter>", "optimizer/<parameter>/<state>".
  std::vector<NamedParameter> state();

 private:
  void exchange_averages();

  ParameterUpdates updates_;
  std::vector<ParameterRule> rules_;          // by parameter
  std::vector<optim::UpdateConfig> configs_;  // by parameter
  std::vector<std::string> names_;
  std::vector<torch::Tensor> parameters_;  // the module's
  std::vector<torch::Tensor> host_;        // the same tensors, or copies on the host
  std::vector<std::size_t> elements_;      // by parameter
  std::vector<std::vector<float>> state_;  // by parameter, see optim::state_at
  bool averages_shown_ = false;
};

}  // namespace trireme
