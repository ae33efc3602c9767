#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "optim/rule_math.h"
#include "optim/update_config.h"

namespace trireme::optim {

/// One pointer per state array; those beyond `state_floats` are null.
using StateArrays = std::array<float*, kMaxStateArrays>;

/// Returns the state arrays from parameter `begin` on, in a chunk of `count` parameters whose `state` is
/// `state_floats(config)` arrays of `count` floats, one after the other.
StateArrays state_at(const UpdateConfig& config, std::span<float> state, std::size_t count, std::size_t begin = 0);

/// Returns what the rules need to know in a step: doubles become floats here, once.
UpdateConstants update_constants(const UpdateConfig& config, const UpdateInput& input);

/// Applies one update to `parameters`, in place, in one pass over memory. `gradient` has the same size and does not
/// overlap; each `state[k]` points to as many floats. Works element by element, so a chunk may be updated block by
/// block in any order with the same input. Gives the same bits on every machine: nothing is fused, whatever the
/// processor.
///
/// The gradient is scaled, clipped, gets l2 * parameter added (not in adamw and ftrl), and then goes through the rule.
/// State is all zero before step 1. Step 1 is special as in torch: the momentum buffer becomes the gradient, whatever
/// the dampening. FTRL, whose parameters are a function of its state, starts from a state that yields the current
/// parameters, where the paper (and TensorFlow) discard them: all-zero weights would never train a network.
///
/// Where parameters can be pruned, those that are and those that now fall below `input.prune_below` become zero,
/// whatever the rule says. The moving average is that of the new parameters; it begins with those after step 1, and of
/// what is pruned it is zero.
///
/// Config and input must be valid (`validate`). A NaN in the gradient reaches the parameter: the caller filters it.
/// Does not allocate; thread-safe on disjoint data.
void apply_update(const UpdateConfig& config, const UpdateInput& input, std::span<float> parameters, StateArrays state,
                  std::span<const float> gradient);

}  // namespace trireme::optim
