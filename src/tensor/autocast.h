#pragma once

#include <torch/types.h>

#include "trireme/trainer.h"

namespace trireme {

/// While it lives, LibTorch computes what gains from it in the given precision, on this thread: matrix products and
/// convolutions. Gradients are computed in that of their forward operations, so backward needs none.
class AutocastScope {
 public:
  AutocastScope(Precision precision, torch::Device device);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  const bool on_;
  const torch::DeviceType device_;
};

}  // namespace trireme
