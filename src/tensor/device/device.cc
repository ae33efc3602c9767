#include "tensor/device/device.h"

#include <ATen/Context.h>

#include <cstdlib>

#include <torch/cuda.h>
#include <torch/utils.h>

#include "base/error.h"
#include "tensor/device/work_graph.h"

namespace trireme {

torch::Device pick_device(const std::string& name, Rank rank) {
  if (name == "cpu") return torch::kCPU;
  if (!torch::cuda::is_available()) {
    fail<InvalidArgument>("--device {}: this LibTorch sees no CUDA device; use --device cpu, or a CUDA build", name);
  }
  if (name == "cuda") return {torch::kCUDA, static_cast<c10::DeviceIndex>(rank % torch::cuda::device_count())};
  return torch::Device(name);
}

void use_device(torch::Device device, bool deterministic) {
  device::use_own_stream(device);
  if (!deterministic || device.is_cpu()) return;
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // or products of several streams differ
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setDeterministicCuDNN(true);
  at::globalContext().setBenchmarkCuDNN(false);
}

void seed_torch(std::uint64_t seed) { torch::manual_seed(seed); }

}  // namespace trireme
