#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tensor/device/device_kernels.h"
#include "train/strategy/own_parameters.h"

namespace trireme {

/// Parameters on a GPU, updated there: the host sees none of it but for checkpoints, and newcomers. The update is that
/// of HostParameters, bit for bit; the norm that clips is added in double precision, in a fixed order.
///
/// Gradients lie in one piece of the device's memory, zero between them.
class DeviceParameters final : public OwnParameters {
 public:
  /// Throws as OwnParameters. On a device where kernels run (device::runs_on).
  DeviceParameters(const torch::nn::Module& module, ParameterUpdates updates);

  bool on_device() const override { return true; }
  void begin_step() override;
  double clip_factor(Gradients gradients, double samples, Step step) const override;
  void prepare(const optim::UpdateInput& input, Step step) override;
  void foresee(Gradients gradients, const optim::UpdateInput& input, Step step) override;
  void update(const optim::UpdateInput& input, Step step, Gradients gradients) override;
  bool counts(Gradients gradients) const override;

  /// A copy.
  std::vector<NamedParameter> state() override;
  void take_state() override;

 private:
  /// What the constants of the next update on the device are for.
  struct Prepared {
    Step update = 0;
    double lr = 0;
    Step step = 0;

    bool operator==(const Prepared&) const = default;
  };

  void exchange_averages() override;
  std::vector<optim::UpdateConstants> constants_of(const optim::UpdateInput& input, Step step) const;
  void find_gradients(Gradients gradients);
  device::PendingNumber start_squares(Gradients gradients) const;
  double squares(Gradients gradients) const;

  std::vector<torch::Tensor> state_;  // by parameter: its arrays, one after the other
  std::unique_ptr<device::Updates> updates_on_device_;
  std::vector<const float*> known_gradients_;  // that it is made for
  std::optional<Prepared> prepared_;
  std::optional<device::PendingNumber> foreseen_squares_;
  std::vector<torch::Tensor> host_;  // copies of parameters and state, by parameter, since `state`
  std::vector<torch::Tensor> host_state_;
};

}  // namespace trireme
