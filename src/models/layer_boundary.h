#pragma once

#include "trireme/layers.h"

namespace trireme::models {

/// Returns `activations` as the next layer gets them: contiguous, and with gradients that are contiguous too. One node
/// of the graph, so that all that flows back from the next layer is there before any of it goes on; a stage of a
/// pipeline therefore adds in the same order as the whole network.
Activations pass_boundary(Activations activations);

}  // namespace trireme::models
