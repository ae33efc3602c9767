#pragma once

#include <vector>

#include "collective/communicator.h"
#include "train/strategy/strategy.h"

namespace trireme {

/// Brings all ranks to the state of whoever is furthest (the lowest such rank; rank 0 if all are fresh): `state` is the
/// same list on all of them. All that are level keep what they have, because they would have computed the same.
/// A collective call. Returns where all of them are now (fresh if all were), and whether values of another rank were
/// taken here. Throws as
/// Communicator::run does.
struct SyncResult {
  Position at;
  bool taken = false;
};
SyncResult sync_to_furthest(collective::Communicator& ranks, const Position& own,
                            const std::vector<NamedParameter>& state);

/// What no optimizer touches, by name: frozen parameters ("model/<name>") and buffers ("buffer/<name>").
std::vector<NamedParameter> non_trainable_state(const torch::nn::Module& module);

}  // namespace trireme
