#pragma once

#include <string>

#include <torch/torch.h>

#include "dist/world.h"

namespace trireme::dist {

/// Gives every rank the root's values of all tensors. All ranks give the same names, shapes and types. A collective
/// call; throws as World::broadcast_ does, naming the tensor.
void broadcast_parameters(World& world, const torch::OrderedDict<std::string, torch::Tensor>& named, Rank root = 0);

/// The same for all parameters, frozen ones too, and buffers of a module.
void broadcast_parameters(World& world, const torch::nn::Module& module, Rank root = 0);

/// Gives every rank the root's optimizer state (momentum, step counts, …) and settings (learning rates, …), whether it
/// has state of its own already or has never made a step. The ranks' optimizers are of one class and were made for
/// the same parameters in the same order. Any optimizer that torch can save. A collective call.
void broadcast_optimizer_state(World& world, torch::optim::Optimizer& optimizer, Rank root = 0);

}  // namespace trireme::dist
