#pragma once

#include <string>
#include <vector>

#include "cluster/protocol.h"

namespace trireme::cluster {

/// Returns the GPUs of this host and their use, as NVIDIA's driver says (NVML), in its order; empty where there is
/// none. `library` is loaded by the first call, and not again. Takes some 10 µs for each GPU. Thread-safe.
std::vector<GpuLoad> gpu_load(const std::string& library = "libnvidia-ml.so.1");

}  // namespace trireme::cluster
