#include "tensor/precision.h"

#include <ATen/autocast_mode.h>

#include <torch/version.h>

namespace trireme {

std::optional<torch::ScalarType> lower_precision(const torch::Device& device) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  if (at::autocast::is_autocast_enabled(device.type())) return at::autocast::get_autocast_dtype(device.type());
#else
  if (device.is_cpu() && at::autocast::is_cpu_enabled()) return at::autocast::get_autocast_cpu_dtype();
  if (device.is_cuda() && at::autocast::is_enabled()) return at::autocast::get_autocast_gpu_dtype();
#endif
  return std::nullopt;
}

}  // namespace trireme
