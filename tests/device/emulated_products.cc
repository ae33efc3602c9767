// Products for a device that is the CPU: LibTorch's own, one step after the other, as tensor/device/products.h says.

#include <ATen/ATen.h>

#include "tensor/device/products.h"

namespace trireme::device {

bool can_multiply(const torch::Tensor& input, std::int64_t outputs) {
  return input.scalar_type() == torch::kBFloat16 && input.dim() == 2 && input.is_contiguous() &&
         input.size(0) % 8 == 0 && input.size(1) % 8 == 0 && outputs % 8 == 0;
}

torch::Tensor linear(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias) {
  return at::linear(input, weight, bias);
}

Activated linear_gelu(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias) {
  const torch::Tensor before = at::linear(input, weight, bias);
  return {.before = before, .after = at::gelu(before, "tanh")};
}

torch::Tensor input_gradient(const torch::Tensor& gradient, const torch::Tensor& weight) { return gradient.mm(weight); }

torch::Tensor weight_gradient(const torch::Tensor& gradient, const torch::Tensor& input) {
  return gradient.t().to(torch::kFloat32).mm(input.to(torch::kFloat32));
}

}  // namespace trireme::device
