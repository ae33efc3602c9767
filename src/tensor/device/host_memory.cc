#include "tensor/device/host_memory.h"

namespace trireme {

torch::Tensor on_host(const torch::Tensor& tensor) { return tensor.detach().to(torch::kCPU).contiguous(); }

Bytes bytes_of(const torch::Tensor& host) { return {static_cast<const std::byte*>(host.data_ptr()), host.nbytes()}; }

MutableBytes bytes_of(torch::Tensor& host) { return {static_cast<std::byte*>(host.data_ptr()), host.nbytes()}; }

}  // namespace trireme
