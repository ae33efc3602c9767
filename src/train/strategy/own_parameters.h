#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/model.h"

#include "optim/loss_scale.h"
#include "optim/update_rule.h"
#include "train/strategy/parameter_updates.h"

namespace trireme {

/// A model's trainable parameters with their optimizer state, for strategies in which every worker updates its own:
/// in the host's memory (HostParameters), or on a GPU (DeviceParameters).
///
/// Gradients are sums over samples, by parameter, in the same kind of memory. Not thread-safe.
class OwnParameters {
 public:
  using Gradients = std::span<const std::span<const float>>;

  /// Throws InvalidArgument if there are none, or one is not float32.
  OwnParameters(const torch::nn::Module& module, ParameterUpdates updates);
  virtual ~OwnParameters() = default;
  OwnParameters(const OwnParameters&) = delete;
  OwnParameters& operator=(const OwnParameters&) = delete;

  std::size_t size() const { return parameters_.size(); }
  std::span<const std::size_t> elements() const { return elements_; }  ///< by parameter

  /// Whether gradients have to be in the memory of the module's device; else they are in the host's.
  virtual bool on_device() const = 0;
  torch::Device device() const { return parameters_.front().device(); }  ///< of the module

  /// Before the gradients of a step are computed: the module has its parameters, not their averages.
  virtual void begin_step() { show_own(); }

  /// Returns what clips the mean of these gradients, sums over `samples`: see optim::clip_factor; 1 where nothing is
  /// clipped.
  virtual double clip_factor(Gradients gradients, double samples, Step step) const = 0;

  /// Does what the `update` that follows, with the same input but for its gradient_scale, can do before that is known.
  virtual void prepare(const optim::UpdateInput& /*input*/, Step /*step*/) {}

  /// A device has been told to compute these gradients, which are already the sums over all workers: tells it what
  /// `counts`, `clip_factor` and an `update` of `input` will ask of it, before anybody waits for them.
  virtual void foresee(Gradients /*gradients*/, const optim::UpdateInput& /*input*/, Step /*step*/) {}

  /// One update of each parameter, in step number `step` of the run, which decides what is pruned. `gradients` do not
  /// overlap them.
  virtual void update(const optim::UpdateInput& input, Step step, Gradients gradients) = 0;

  /// A loss scale that adapts: whether a step with these gradients counts, that is, is finite; and what became of one.
  /// Where the scale is fixed all steps count. `count` throws InvalidArgument as optim::check_useful.
  virtual bool counts(Gradients gradients) const = 0;
  void count(bool finite, Step step);
  float loss_scale() const { return loss_scale_[0]; }
  std::optional<optim::LossScale> adaptive_scale() const;

  /// The moving averages and the parameters change places, if there are any: `show_own` changes them back. What is
  /// shown is what the module has.
  void show_averages();
  void show_own();

  /// All of it by name, in the host's memory: "model/<parameter>", "optimizer/<parameter>/<state>", "loss_scale". Valid
  /// until the next call; what is written there counts after `take_state`.
  virtual std::vector<NamedParameter> state() = 0;
  virtual void take_state() = 0;

 protected:
  virtual void exchange_averages() = 0;

  bool has_averages() const { return optim::average_array(updates_.config).has_value(); }

  /// What the update of parameter `i` needs to know, if its values, which decide what is pruned, are these.
  optim::UpdateInput input_of(std::size_t i, const optim::UpdateInput& input, Step step,
                              std::span<const float> values) const;

  /// All of it by name, where `values` and the arrays of state, one after the other, are given by parameter.
  std::vector<NamedParameter> named(std::span<const torch::Tensor> values, std::span<float* const> arrays);

  ParameterUpdates updates_;
  std::vector<ParameterRule> rules_;          // by parameter
  std::vector<optim::UpdateConfig> configs_;  // by parameter
  std::vector<std::string> names_;
  std::vector<torch::Tensor> parameters_;  // the module's
  std::vector<std::size_t> elements_;      // by parameter
  std::array<float, optim::LossScale::kFloats> loss_scale_;

 private:
  bool averages_shown_ = false;
};

/// On the device where the module's parameters are, if this build can update them there; else on the host.
std::unique_ptr<OwnParameters> make_own_parameters(const torch::nn::Module& module, ParameterUpdates updates);

}  // namespace trireme
