#include "tensor/autocast.h"

#include <ATen/autocast_mode.h>

#include <torch/version.h>

#include "base/error.h"
#include "base/suggest.h"

namespace trireme {
namespace {

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
void enable(torch::DeviceType device, bool on) {
  at::autocast::set_autocast_enabled(device, on);
  if (on) at::autocast::set_autocast_dtype(device, torch::kBFloat16);
}
#else
void enable(torch::DeviceType device, bool on) {
  if (device == torch::kCPU) {
    at::autocast::set_cpu_enabled(on);
    if (on) at::autocast::set_autocast_cpu_dtype(torch::kBFloat16);
  } else {
    at::autocast::set_enabled(on);
    if (on) at::autocast::set_autocast_gpu_dtype(torch::kBFloat16);
  }
}
#endif

}  // namespace

AutocastScope::AutocastScope(Precision precision, torch::Device device)
    : on_(precision == Precision::kBf16), device_(device.type()) {
  if (on_) enable(device_, true);
}

AutocastScope::~AutocastScope() {
  if (!on_) return;
  enable(device_, false);
  at::autocast::clear_cache();  // of parameters in that precision: the next step has others
}

Precision parse_precision(const std::string& text) {
  if (text == "fp32") return Precision::kFp32;
  if (text == "bf16") return Precision::kBf16;
  fail<InvalidArgument>("unknown precision '{}'{}: use fp32 or bf16", text, did_you_mean(text, {"fp32", "bf16"}));
}

}  // namespace trireme
