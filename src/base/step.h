#pragma once

#include <algorithm>
#include <cstdint>

#include "trireme/types.h"

namespace trireme {

// What goes down with the gradients of a step, from the training loop to the place of the update, and what comes back.

/// What a worker's gradients of one step stand for.
struct StepInfo {
  Step step = 0;           ///< the version they were computed from; ssp, asp: steps this worker has finished
  std::uint64_t unit = 0;  ///< ssp, asp: which piece of work it is, such as step * lanes + lane; each counts once
  LaneRange lanes;         ///< whose gradients are summed
  double samples = 0;      ///< in these lanes: the weight in the average
  double lr = 0;
  bool stop = false;     ///< ask all workers to stop after this step
  bool regroup = false;  ///< ask all workers to meet in another view after this step
};

/// How a step ended for a worker: by one chunk of the parameters, by some of them, or by all.
struct StepOutcome {
  Step oldest = 0;        ///< updates that the chunk with the fewest has seen
  Step newest = 0;        ///< and the one with the most
  bool counted = true;    ///< false: for some chunk the gradient came too late (backup workers), or for the second time
  bool repeated = false;  ///< for all of them it did
  bool stop = false;      ///< some worker asked to stop; in synchronous modes all are told after the same step
  bool regroup = false;   ///< some worker asked, in this step, to meet in another view; all are told

  /// Returns the outcome of a step after which all is of one version.
  static StepOutcome at(Step version) { return {.oldest = version, .newest = version}; }

  /// Returns the outcome of no chunk: what `add` starts from.
  static StepOutcome none() { return {.oldest = ~Step{0}, .repeated = true}; }

  /// Makes this the outcome of its chunks and those of `other`.
  void add(const StepOutcome& other) {
    oldest = std::min(oldest, other.oldest);
    newest = std::max(newest, other.newest);
    counted = counted && other.counted;
    repeated = repeated && other.repeated;
    stop = stop || other.stop;
    regroup = regroup || other.regroup;
  }

  /// Whether all chunks are of the same version: with bsp they are, unless a step was interrupted in the middle.
  bool whole() const { return oldest == newest; }
};

}  // namespace trireme
