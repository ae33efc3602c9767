#pragma once

#include <functional>
#include <vector>

#include "collective/communicator.h"
#include "elastic/training_state.h"

namespace trireme {

/// Brings all ranks to the state of whoever is furthest (the lowest such rank; rank 0 if all are fresh): `state` is the
/// same list on all of them. If all are level and settled they keep what they have, because they would have computed
/// the same. A collective call. Returns where all of them are now (fresh if all were), and whether values of another
/// rank were taken here. Throws as Communicator::run does.
struct SyncResult {
  Position at;
  bool taken = false;
};
SyncResult sync_to_furthest(collective::Communicator& ranks, const Position& own,
                            const std::vector<NamedParameter>& state);

/// The same where ranks that are not level may differ in what their state consists of: `share` is then called on all of
/// them, and returns the list; it may talk to the others first, of whom `root` is the furthest.
SyncResult sync_to_furthest(collective::Communicator& ranks, const Position& own,
                            const std::function<std::vector<NamedParameter>(Rank root)>& share);

/// What no optimizer touches, by name: frozen parameters ("model/<name>") and buffers ("buffer/<name>").
std::vector<NamedParameter> non_trainable_state(const torch::nn::Module& module);

}  // namespace trireme
