#pragma once

#include <optional>

#include <torch/types.h>
#include <torch/version.h>

namespace trireme {

/// A tensor that may be missing, as LibTorch's functions take it.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
using MaybeTensor = std::optional<torch::Tensor>;
#else
using MaybeTensor = c10::optional<torch::Tensor>;
#endif

inline MaybeTensor maybe(const torch::Tensor& tensor) { return tensor.defined() ? MaybeTensor(tensor) : MaybeTensor(); }

}  // namespace trireme
