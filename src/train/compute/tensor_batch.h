#pragma once

#include <torch/types.h>

#include "trireme/task.h"

#include "base/numbers/lanes.h"

namespace trireme {

/// Returns the samples `part` of `batch` as tensors on `device`. On the CPU they are views of it: `batch` must live,
/// and stay unchanged, as long as anything uses them.
Batch to_tensors(const data::Batch& batch, SampleRange part, torch::Device device);

/// How a batch for this device gets its memory: pinned for a GPU, which reads it itself then; empty, so as always, for
/// a CPU.
data::Batch::Allocate batch_memory(torch::Device device);

/// Copies the samples `part` of `batch` to tensors that `to_tensors` made of as many others of these shapes.
void copy_samples(const data::Batch& batch, SampleRange part, const Batch& to);

}  // namespace trireme
