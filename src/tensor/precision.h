#pragma once

#include <optional>

#include <torch/types.h>

namespace trireme {

/// What products are computed in on this device, on this thread, under autocast; nullopt: in what they are given.
std::optional<torch::ScalarType> lower_precision(const torch::Device& device);

}  // namespace trireme
