#pragma once

#include <vector>

#include "trireme/collective/communicator.h"
#include "trireme/train/strategy.h"

namespace trireme {

/// Brings all ranks to the state of whoever is furthest (the lowest such rank; rank 0 if all are fresh): `state` is the
/// same list on all of them. All that are level keep what they have, because they would have computed the same.
/// A collective call. Returns where all of them are now (fresh if all were), and whether values of another rank were
/// taken here. Throws as
/// Communicator::run does.
struct Levelled {
  Advance at;
  bool taken = false;
};
Levelled share_state(collective::Communicator& ranks, const Advance& own, const std::vector<NamedParameter>& state);

/// What no optimizer touches, by name: frozen parameters ("model/<name>") and buffers ("buffer/<name>").
std::vector<NamedParameter> untrained_state(const torch::nn::Module& module);

}  // namespace trireme
