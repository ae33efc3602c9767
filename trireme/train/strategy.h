#pragma once

#include <string>

#include "trireme/base/lanes.h"
#include "trireme/models/model.h"

namespace trireme {

/// What a step's gradients stand for.
struct StepInfo {
  Step step = 0;       ///< steps this worker has finished
  LaneRange lanes;     ///< whose gradients this worker sums
  double samples = 0;  ///< in these lanes
  double lr = 0;
  bool stop = false;  ///< this worker wants everybody to stop after this step
};

/// How a step ended.
struct Commit {
  Step version = 0;     ///< steps the parameters have seen, by this worker's knowledge
  bool counted = true;  ///< false: this worker's gradients came too late to count
  bool stop = false;    ///< end now; in synchronous modes all workers are told after the same step
};

/// How gradients become one update of the parameters: parameter servers, all-reduce, …
///
/// A step: `begin`, then for each parameter, in the order in which backward produces them, its gradient is written to
/// `gradient(i)` and `add(i)` called (it may leave at once), then `finish`.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// Takes over the parameters: from now on they live where the strategy wants them. Brings all workers to the same
  /// initial values. Called once.
  virtual void attach(const Model& model) = 0;

  virtual void begin(const StepInfo& info) = 0;

  /// Where the gradient (summed over the samples of all this worker's lanes) of parameter `i` goes: host memory, flat.
  virtual std::span<float> gradient(std::size_t i) = 0;

  virtual void add(std::size_t i) = 0;

  /// Waits until the update is made; the parameters are then new. Throws PeerLost, Timeout.
  virtual Commit finish() = 0;

  /// Brings the parameters up to date without contributing: before an evaluation.
  virtual void refresh() = 0;

  /// This worker contributes no more.
  virtual void leave() = 0;

  /// Makes a wait in progress fail; from any thread.
  virtual void interrupt(const std::string& reason) = 0;
};

}  // namespace trireme
