#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "optim/update_config.h"

namespace trireme::optim {

/// One pointer per state array of a rule; those beyond `state_floats` are null.
using StateArrays = std::array<float*, kMaxStateArrays>;

/// The state of parameter `begin` and those after it in a chunk of `count`, whose `state` is `state_floats(rule)`
/// arrays of `count` floats one after the other.
StateArrays state_at(Rule rule, std::span<float> state, std::size_t count, std::size_t begin = 0);

/// Applies one update to `parameters`, in place, in one pass over memory. `gradient` has the same size and does not
/// overlap; `state[k]` points to as many floats. Element by element, so a chunk may be updated block by block in any
/// order, with the same input. The same bits on every machine: nothing is fused, whatever the processor offers.
///
/// The gradient is scaled, clipped, gets l2 * parameter (not in adamw and ftrl), and then goes through the rule. State
/// is all zero before step 1. Step 1 is special as in torch: the momentum buffer becomes the gradient, whatever the
/// dampening; and FTRL, whose parameters are a function of its state, starts from a state that gives the parameters
/// found, where the paper (and TensorFlow) forget them: all-zero weights would never train a network.
///
/// Config and input are valid (`validate`). A NaN in the gradient reaches the parameter: stop it before.
/// Does not allocate; any thread.
void apply_update(const UpdateConfig& config, const UpdateInput& input, std::span<float> parameters, StateArrays state,
                  std::span<const float> gradient);

}  // namespace trireme::optim
