#pragma once

#include <span>
#include <vector>

#include "trireme/model.h"

#include "optim/update_rule.h"

namespace trireme {

/// A model's trainable parameters as flat host memory with their optimizer state, for strategies in which every worker
/// updates its own. The update is the very code that servers run, so both give the same bits.
///
/// On the CPU the memory is the module's own; on a GPU it is a copy, from which `copy_to_module` brings the new values
/// there.
class HostParameters {
 public:
  /// Throws InvalidArgument if there are none, or one is not float32.
  HostParameters(const torch::nn::Module& module, const optim::UpdateConfig& update);

  std::size_t size() const { return parameters_.size(); }
  std::span<float> values(std::size_t i) { return {host_[i].data_ptr<float>(), elements_[i]}; }
  std::span<const std::size_t> elements() const { return elements_; }  ///< by parameter

  /// One update of parameter `i`. `gradient` does not overlap it.
  void update(std::size_t i, const optim::UpdateInput& input, std::span<const float> gradient);

  /// Makes the present values of parameter `i` the module's.
  void copy_to_module(std::size_t i);
  void copy_all_to_module();

  /// All of it by name, on the host, not copied: "model/<parameter>", "optimizer/<parameter>/<k>".
  std::vector<NamedParameter> state();

 private:
  optim::UpdateConfig update_;
  std::vector<std::string> names_;
  std::vector<torch::Tensor> parameters_;  // the module's
  std::vector<torch::Tensor> host_;        // the same tensors, or copies on the host
  std::vector<std::size_t> elements_;      // by parameter
  std::vector<std::vector<float>> state_;  // by parameter, see optim::state_at
};

}  // namespace trireme
