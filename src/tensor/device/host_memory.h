#pragma once

#include <torch/types.h>

#include "base/bytes.h"

namespace trireme {

/// Returns the values of `tensor`, of any type, on any device, in any layout, as contiguous memory of the host, without
/// gradient: the tensor's own memory where that will do, else a copy.
torch::Tensor on_host(const torch::Tensor& tensor);

/// Returns the memory of a tensor that `on_host` returned; valid as long as it.
Bytes bytes_of(const torch::Tensor& host);
MutableBytes bytes_of(torch::Tensor& host);

}  // namespace trireme
