#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/model.h"
#include "trireme/trainer.h"

#include "base/step.h"
#include "elastic/training_state.h"
#include "train/compute/gradient_sink.h"

namespace trireme {

/// What a checkpoint is wanted of.
struct CheckpointRequest {
  Step step = 0;              ///< leased work: no matter; all that was made is wanted
  std::optional<Step> saved;  ///< the last that was saved: nothing is to be done for it again
  std::string attempt;        ///< see checkpoint::PartInfo; for those who write parts elsewhere
  std::uint64_t bytes_per_second = 0;
};

/// Fills `state` from the newest checkpoint and returns where that was made; nullopt if there is none. Where
/// `initial`, `state` holds the values that training begins with, if nothing is restored.
using Restore = std::function<std::optional<Position>(const std::vector<NamedParameter>& state, bool initial)>;

/// How gradients become one update of the parameters: parameter servers, all-reduce, ... It takes over the parameters
/// of the model that it is made for: they live where the strategy wants them.
///
/// A step: `begin`, then the gradients (see GradientSink), then `finish`. A view: `sync_state`, then steps; after the
/// last step `leave`. All is called by the training thread, but for `interrupt`.
class Strategy : public GradientSink {
 public:
  /// For a learner, before its first `sync_state`: takes as much of the others' state as can be had while they train,
  /// and returns when waiting any longer before it takes part would gain nothing. `sync_state` brings the rest. Throws
  /// PeerLost if the job has failed.
  virtual void catch_up() {}

  /// Brings all workers of the present view to the same state: that of whoever is furthest; or, where nobody has any,
  /// what the chief gets from `restore` (may be null), or its initial values. First of all calls in every view. A
  /// collective call. Returns the step to go on with. Throws PeerLost, Timeout, StaleView.
  virtual Step sync_state(const Restore& restore) = 0;

  /// Begins a step: what `info` says travels with its gradients. Called once per step, after `sync_state` or the
  /// `finish` of the step before; a step that threw is begun again after the next `sync_state`. Does not wait for
  /// peers. Throws PeerLost if the view is broken already.
  virtual void begin(const StepInfo& info) = 0;

  /// Waits until the update is made, and returns how it ended; the parameters are then new. After every gradient was
  /// added. Throws PeerLost, Timeout, StaleView; then `sync_state` tells whether the step was made.
  virtual StepOutcome finish() = 0;

  /// Shows the common parameters in the module without contributing: before an evaluation. By the chief alone, between
  /// steps or after `leave`; so not a collective call. Throws PeerLost, Timeout, StaleView.
  virtual void refresh() = 0;

  /// This worker has no work for now: until its next step nobody waits for it. Throws PeerLost, Timeout, StaleView.
  virtual void pause() {}

  /// This worker contributes no more. In synchronous modes all workers call it after the same step, and it may be a
  /// collective call. Throws PeerLost, Timeout, StaleView.
  virtual void leave() = 0;

  /// Returns what the checkpoint holds; nullopt if this is no moment for one, or it was saved, or it is another
  /// worker's business. Between steps; valid until the next call. Where others than workers hold some of it, they write
  /// that, if they can: they have begun when this returns. Throws PeerLost, Timeout, StaleView.
  virtual std::optional<TrainingState> state(const CheckpointRequest& request) = 0;

  /// Makes a wait in progress, and each later one in this view, throw PeerLost that gives `reason`. From any thread;
  /// does not block.
  virtual void interrupt(const std::string& reason) = 0;

  /// Returns what this worker has moved so far; nullopt if it never took part.
  virtual std::optional<Communication> communication() const = 0;
};

}  // namespace trireme
