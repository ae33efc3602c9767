#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/model.h"
#include "trireme/trainer.h"

#include "base/step.h"
#include "checkpoint/checkpoint.h"
#include "elastic/training_state.h"
#include "optim/loss_scale.h"
#include "train/compute/gradient_sink.h"
#include "train/compute/step_computer.h"
#include "train/evaluator.h"

namespace trireme {

/// What a checkpoint is wanted of.
struct CheckpointRequest {
  Step step = 0;              ///< leased work: no matter; all that was made is wanted
  std::optional<Step> saved;  ///< the last that was saved: nothing is to be done for it again
  std::string attempt;        ///< see checkpoint::PartInfo; for those who write parts elsewhere
  std::uint64_t bytes_per_second = 0;
};

/// A checkpoint that a run goes on from.
struct OpenedState {
  Position at;
  checkpoint::Checkpoint saved;  ///< sound: all of it was read once
};

/// How a strategy gets what a run goes on from, on the chief. Where `initial`, nothing was trained yet: what the
/// strategy has are the values that training begins with, if nothing is restored. Each may be null.
struct Restore {
  /// Fills `state` from the newest checkpoint and returns where that was made; nullopt if there is none.
  std::function<std::optional<Position>(const std::vector<NamedParameter>& state, bool initial)> fill = {};

  /// Opens that checkpoint, for a state that no worker holds all of.
  std::function<std::optional<OpenedState>(bool initial)> open = {};
};

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

  /// Returns which lanes each worker of the present view computes, by rank, where the strategy has its own mind about
  /// that; after `sync_state`.
  virtual std::optional<std::vector<LaneRange>> deal() const { return std::nullopt; }

  /// Returns what computes the gradients, where the strategy knows of another model than it was made for; null: the
  /// caller does. After `sync_state`, until the next.
  virtual StepComputer* computer() { return nullptr; }

  /// Returns whether this worker speaks for the lanes it computes: false where another one computes them, too.
  virtual bool reports() const { return true; }

  /// Begins a step: what `info` says travels with its gradients. Called once per step, after `sync_state` or the
  /// `finish` of the step before; a step that threw is begun again after the next `sync_state`. Does not wait for
  /// peers. Throws PeerLost if the view is broken already.
  virtual void begin(const StepInfo& info) = 0;

  /// Waits until the update is made, and returns how it ended; the parameters are then new. After every gradient was
  /// added. Throws PeerLost, Timeout, StaleView; then `sync_state` tells whether the step was made.
  virtual StepOutcome finish() = 0;

  /// A peer was lost since `begin`, and `finish` has not returned: `computer`, which has computed the step, puts the
  /// buffers back to what they were before it, if it was not made. `computer` outlives the next `sync_state`, which may
  /// be the first to know.
  virtual void give_up(StepComputer& computer) { computer.rewind(); }

  /// Shows the common parameters in the module without contributing: before an evaluation. By the chief alone, between
  /// steps or after `leave`; so not a collective call. Throws PeerLost, Timeout, StaleView.
  virtual void refresh() = 0;

  /// This worker has no work for now: until its next step nobody waits for it. Throws PeerLost, Timeout, StaleView.
  virtual void pause() {}

  /// Changes how all workers evaluate together, where they do not each have the whole model.
  virtual void place_evaluation(EvaluationPlace& /*place*/) {}

  /// After all steps and evaluations, by all workers: the chief's module becomes the whole model. A collective call.
  /// Returns the chief's model where that is another one than the strategy was made for.
  virtual std::optional<Model> collect() { return std::nullopt; }

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

  /// Returns the loss scale, if it is one that adapts, as this worker last knew it; nullopt otherwise.
  virtual std::optional<optim::LossScale> adaptive_scale() const { return std::nullopt; }

  /// Returns what this worker has moved so far; nullopt if it never took part.
  virtual std::optional<Communication> communication() const = 0;

  /// Returns what this worker holds for the parameters; nullopt if it never took part, or others hold some of it.
  virtual std::optional<HeldBytes> held() const { return std::nullopt; }
};

}  // namespace trireme
