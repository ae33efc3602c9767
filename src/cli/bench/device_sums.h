#pragma once

#include "cli/bench/allreduce.h"

namespace trireme::cli {

/// Measures sums in the memory of a GPU by ranks that share it or have one each, beside the way through the host's
/// memory and a plain copy on the device, and prints the result. Returns 0, or 1 after a message.
int bench_device_sums(const BenchAllReduceOptions& options);

}  // namespace trireme::cli
