#pragma once

#include <functional>

#include "trireme/layers.h"

namespace trireme::parallel {

/// Returns `run(activations)`, of which only the input is kept: backward calls `again` to compute the rest a second
/// time, with gradients, and must get the same bits. Gradients of parameters are accumulated as in any backward pass.
/// `trains`: whether the layer has parameters that want gradients.
Activations run_recomputed(const std::function<Activations(Activations)>& run,
                           std::function<Activations(Activations)> again, Activations activations, bool trains);

}  // namespace trireme::parallel
