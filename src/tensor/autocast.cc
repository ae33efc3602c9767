#include "tensor/autocast.h"

#include <ATen/autocast_mode.h>

#include <torch/version.h>

#include "base/error.h"
#include "base/suggest.h"

namespace trireme {
namespace {

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
void enable(torch::DeviceType device, bool on, torch::ScalarType type) {
  at::autocast::set_autocast_enabled(device, on);
  if (on) at::autocast::set_autocast_dtype(device, type);
}
#else
void enable(torch::DeviceType device, bool on, torch::ScalarType type) {
  if (device == torch::kCPU) {
    at::autocast::set_cpu_enabled(on);
    if (on) at::autocast::set_autocast_cpu_dtype(type);
  } else {
    at::autocast::set_enabled(on);
    if (on) at::autocast::set_autocast_gpu_dtype(type);
  }
}
#endif

}  // namespace

AutocastScope::AutocastScope(Precision precision, torch::Device device)
    : on_(precision != Precision::kFp32), device_(device.type()) {
  if (on_) enable(device_, true, precision == Precision::kFp16 ? torch::kHalf : torch::kBFloat16);
}

AutocastScope::~AutocastScope() {
  if (!on_) return;
  enable(device_, false, torch::kFloat32);
  at::autocast::clear_cache();  // of parameters in that precision: the next step has others
}

Precision parse_precision(const std::string& text) {
  if (text == "fp32") return Precision::kFp32;
  if (text == "bf16") return Precision::kBf16;
  if (text == "fp16") return Precision::kFp16;
  fail<InvalidArgument>("unknown precision '{}'{}: use fp32, bf16 or fp16", text,
                        did_you_mean(text, {"fp32", "bf16", "fp16"}));
}

}  // namespace trireme
