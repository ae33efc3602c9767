#pragma once

#include <torch/types.h>

#include "collective/communicator.h"

namespace trireme {

/// Gives every rank the root's values of `tensor`, of any type, on any device, in any layout.
void broadcast_tensor(collective::Communicator& ranks, torch::Tensor tensor, Rank root = 0);

}  // namespace trireme
