#pragma once

#include "trireme/collective/communicator.h"
#include "trireme/models/model.h"

namespace trireme {

/// Gives every rank the parameters (also frozen ones) and buffers of rank `root`. A collective call. Throws as
/// Communicator::run does; InvalidArgument if the ranks' models differ.
void broadcast_model(collective::Communicator& ranks, torch::nn::Module& module, Rank root = 0);

/// Gives every rank the root's values of `tensor`, of any type, on any device, in any layout.
void broadcast_tensor(collective::Communicator& ranks, torch::Tensor tensor, Rank root = 0);

}  // namespace trireme
