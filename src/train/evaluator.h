#pragma once

#include "trireme/collective.h"
#include "trireme/trainer.h"

namespace trireme {

/// Evaluates `model` on all of a dataset, by the task of `options`; with `ranks`, all of them together, each a part.
///
/// The samples are cut into blocks by their number alone, and the sums of blocks are added in order, so the result has
/// the same bits whoever computes which block, alone or together. With `ranks` a collective call: all have the same
/// parameters, and get the result. Throws as the collectives do.
Evaluation evaluate_set(const Model& model, const NamedSet& set, const TrainOptions& options,
                        collective::Communicator* ranks);

}  // namespace trireme
