#include "base/error.h"
#include "tensor/device/products.h"

namespace trireme::device {
namespace {

[[noreturn]] void missing() {
  TRIREME_CHECK(false, "this build has no products for GPUs");
  std::abort();
}

}  // namespace

bool can_multiply(const torch::Tensor& /*input*/, std::int64_t /*outputs*/) { return false; }
torch::Tensor linear(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&) { missing(); }
Activated linear_gelu(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&) { missing(); }
torch::Tensor input_gradient(const torch::Tensor&, const torch::Tensor&) { missing(); }
torch::Tensor weight_gradient(const torch::Tensor&, const torch::Tensor&) { missing(); }

}  // namespace trireme::device
