#pragma once

#include <cstdint>

#include <torch/types.h>

#include "trireme/tensor_parallel.h"

namespace trireme::parallel {

/// Which elements of a tensor stay, and by how much they grow: 0 or 1 / (1 - probability), of the shape `sizes` and
/// `options`. Each is a function of `seed` and the element's number in a whole tensor, of whose dimension `dim`, of
/// `whole` elements, `sizes` has those from `first` on: so any part can be drawn without the others, and the mask does
/// not depend on how the tensor is divided.
torch::Tensor dropout_mask(at::IntArrayRef sizes, std::int64_t dim, std::int64_t first, std::int64_t whole,
                           const torch::TensorOptions& options, double probability, std::uint64_t seed);

/// The mask of a whole tensor.
torch::Tensor dropout_mask(const torch::Tensor& whole, double probability, std::uint64_t seed);

}  // namespace trireme::parallel
