#include "tensor/device/device.h"

#include <torch/cuda.h>
#include <torch/utils.h>

#include "base/error.h"

namespace trireme {

torch::Device pick_device(const std::string& name, Rank rank) {
  if (name == "cpu") return torch::kCPU;
  if (!torch::cuda::is_available()) {
    fail<InvalidArgument>("--device {}: this LibTorch sees no CUDA device; use --device cpu, or a CUDA build", name);
  }
  if (name == "cuda") return {torch::kCUDA, static_cast<c10::DeviceIndex>(rank % torch::cuda::device_count())};
  return torch::Device(name);
}

void seed_torch(std::uint64_t seed) { torch::manual_seed(seed); }

}  // namespace trireme
