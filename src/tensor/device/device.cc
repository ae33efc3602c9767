#include "tensor/device/device.h"

#include <ATen/Context.h>

#include <cstdlib>
#include <string>

#include <torch/cuda.h>
#include <torch/utils.h>

#include "base/error.h"
#include "tensor/device/work_graph.h"

namespace trireme {

torch::Device pick_device(const std::string& name, Rank rank) {
  if (name == "cpu") return torch::kCPU;
  if (!torch::cuda::is_available()) {
    fail<InvalidArgument>(
        "--device {}: LibTorch finds no GPU here: is it a build for CUDA (Debian's is for the CPU), and does "
        "nvidia-smi show one? Without: --device cpu",
        name);
  }
  const auto count = static_cast<std::size_t>(torch::cuda::device_count());
  if (name == "cuda") return {torch::kCUDA, static_cast<c10::DeviceIndex>(rank % count)};
  const auto index = std::stoul(name.substr(name.find(':') + 1));
  if (index >= count) fail<InvalidArgument>("--device {}: the GPUs here are cuda:0 to cuda:{}", name, count - 1);
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(index)};
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
