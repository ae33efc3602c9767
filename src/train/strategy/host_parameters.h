#pragma once

#include <span>
#include <vector>

#include "train/strategy/own_parameters.h"

namespace trireme {

/// Parameters in the host's memory. The update is the very code that servers run, so both give the same bits.
///
/// On the CPU the memory is the module's own; where the module is on a GPU it is a copy, from which the new values are
/// brought there.
class HostParameters final : public OwnParameters {
 public:
  /// Throws as OwnParameters.
  HostParameters(const torch::nn::Module& module, ParameterUpdates updates);

  std::span<float> values(std::size_t i) { return {host_[i].data_ptr<float>(), elements_[i]}; }

  bool on_device() const override { return false; }
  double clip_factor(Gradients gradients, double samples, Step step) const override;
  void update(const optim::UpdateInput& input, Step step, Gradients gradients) override;
  bool counts(Gradients gradients) const override;

  /// The moving average of parameter `i`; empty if there is none.
  std::span<float> average(std::size_t i);

  /// Sets those of `values`, as many as parameter `i` has, to zero that are pruned in it.
  void clear_pruned(std::size_t i, std::span<float> values);

  /// Makes the present values of parameter `i` the module's.
  void copy_to_module(std::size_t i);

  /// Not copied: `take_state` only brings the values to the module.
  std::vector<NamedParameter> state() override;
  void take_state() override;

 private:
  void exchange_averages() override;

  std::vector<torch::Tensor> host_;        // the module's tensors, or copies on the host
  std::vector<std::vector<float>> state_;  // by parameter, see optim::state_at
};

}  // namespace trireme
