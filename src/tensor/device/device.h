#pragma once

#include <string>

#include <torch/types.h>

#include "trireme/types.h"

namespace trireme {

/// Returns the device that --device names: "cpu", "cuda" (the workers take turns with the GPUs), or one of these,
/// "cuda:1". Throws InvalidArgument where LibTorch has no such device.
torch::Device pick_device(const std::string& name, Rank rank);

/// This thread computes on the device from now on, a GPU on a stream of its own. `deterministic`: with algorithms alone
/// that give the same bits each time; what has none throws. Before anything is computed on a GPU.
void use_device(torch::Device device, bool deterministic);

/// Seeds LibTorch's generators, from which modules draw their first parameters.
void seed_torch(std::uint64_t seed);

}  // namespace trireme
