#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "trireme/optimizer.h"

namespace trireme::optim {

/// Returns which share of the parameters is to be pruned from step `step` on, where it is one at which pruning happens;
/// nullopt elsewhere. Pure.
std::optional<double> sparsity_at(const PruneOptions& options, Step step);

/// Returns the magnitude below which parameters are pruned so that about `sparsity` of `values` are: the same bits
/// whoever computes it. 0 = none.
float prune_threshold(std::span<const float> values, double sparsity);

}  // namespace trireme::optim
