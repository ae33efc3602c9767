#pragma once

#include <torch/types.h>

#include "collective/communicator.h"

namespace trireme {

/// Gives every rank the root's values of `tensor`, of any type, on any device, in any layout. A collective call: blocks
/// until the values are there. Does nothing if there is one rank, or the tensor is not defined. Throws as
/// Communicator::run.
void broadcast_tensor(collective::Communicator& ranks, torch::Tensor tensor, Rank root = 0);

}  // namespace trireme
