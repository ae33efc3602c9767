#pragma once

#include <torch/types.h>

#include "trireme/tensor_parallel.h"

#include "base/numbers/exact_sum.h"

namespace trireme::parallel {

/// Adds the squares of a gradient's elements that count on this process, for the norm of all: of a slice those of its
/// lanes, block by block; of a whole parameter (`slice` null) all of them on rank 0 and none elsewhere. The sum of all
/// processes' sums (ExactSum::add) does not depend on how many there are, bit for bit.
void add_squares(const TensorGroup& group, const torch::Tensor& gradient, const ParameterSlice* slice, ExactSum& sum);

}  // namespace trireme::parallel
