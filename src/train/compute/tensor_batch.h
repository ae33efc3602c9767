#pragma once

#include <torch/types.h>

#include "trireme/task.h"

#include "base/numbers/lanes.h"

namespace trireme {

/// Returns the samples `part` of `batch` as tensors on `device`. On the CPU they are views of it: `batch` must live,
/// and stay unchanged, as long as anything uses them.
Batch to_tensors(const data::Batch& batch, SampleRange part, torch::Device device);

}  // namespace trireme
