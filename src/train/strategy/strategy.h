#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/model.h"
#include "trireme/trainer.h"

#include "base/step.h"

namespace trireme {

/// How far a worker has got.
struct Position {
  bool fresh = true;  ///< it has nothing but initial values
  Step version = 0;   ///< steps; some of them without samples
  Step updates = 0;   ///< steps that changed something: what the rule counts
};

/// All that training has made so far, by name, not copied: "model/…", "optimizer/…", "buffer/…".
struct TrainingState {
  Position at;
  std::vector<NamedParameter> tensors;
  bool same_everywhere = true;  ///< all workers hold the same bits: each can save a share of them
  /// What others than workers hold (here only names, shapes and types count), and how many parts of this checkpoint
  /// they have begun to write it to.
  std::vector<NamedParameter> elsewhere = {};
  std::uint32_t other_parts = 0;
};

/// What a checkpoint is wanted of.
struct SaveRequest {
  Step step = 0;              ///< leased work: no matter; all that was made is wanted
  std::optional<Step> saved;  ///< the last that was saved: nothing is to be done for it again
  std::string attempt;        ///< see checkpoint::PartInfo; for those who write parts elsewhere
  std::uint64_t bytes_per_second = 0;
};

/// Fills `state` from the newest checkpoint and returns where that was made; nothing if there is none. Where
/// `initial`, `state` holds the values that training begins with, if nothing is restored.
using Restore = std::function<std::optional<Position>(const std::vector<NamedParameter>& state, bool initial)>;

/// How gradients become one update of the parameters: parameter servers, all-reduce, …
///
/// A step: `begin`, then for each parameter, in the order in which backward produces them, its gradient is written to
/// `gradient(i)` and `add(i)` called (it may leave at once), then `finish`.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// Takes over the parameters: they will live where the strategy wants them. Called once; talks to nobody.
  virtual void attach(const Model& model) = 0;

  /// For a learner, after `attach`: takes as much of the others' state as can be had while they train, and returns when
  /// waiting any longer before it takes part would gain nothing. `sync_state` brings the rest.
  virtual void catch_up() {}

  /// Brings all workers of the present view to the same state: that of whoever is furthest; or, where nobody has any,
  /// what the chief gets from `restore` (null: nothing), or its initial values. After `attach`, and again in every
  /// later view. A collective call. Returns the step to go on with. Throws PeerLost, Timeout, StaleView.
  virtual Step sync_state(const Restore& restore) = 0;

  /// Begins a step: what `info` says travels with its gradients. Called once per step by the training thread, after
  /// `sync_state` or the `finish` of the step before; a step that threw is begun again after the next `sync_state`.
  /// Does not wait for peers. Throws PeerLost if the view is broken already.
  virtual void begin(const StepInfo& info) = 0;

  /// Where the gradient (summed over the samples of all this worker's lanes) of parameter `i` goes: host memory, flat.
  virtual std::span<float> gradient(std::size_t i) = 0;

  /// `gradient(i)` is complete: it may be sent now, so it belongs to the strategy until `finish` has returned or
  /// thrown. Called exactly once per parameter between `begin` and `finish`, in any order; twice aborts. Called by the
  /// training thread, or by the one on which backward runs its hooks; not thread-safe. Does not wait for peers. Throws
  /// PeerLost if the view is broken, InvalidArgument if a transport can never carry it.
  virtual void add(std::size_t i) = 0;

  /// Where the model's float32 buffers (batch-norm statistics), summed over this worker's lanes, go before `finish`,
  /// which makes the mean over all lanes the new buffers: host memory, flat, in the order of ModelBuffers. Nothing:
  /// they go from lane to lane as they are.
  virtual std::optional<std::span<float>> buffer_sums() { return std::nullopt; }

  /// Waits until the update is made; the parameters are then new. Throws PeerLost, Timeout.
  virtual StepOutcome finish() = 0;

  /// Brings the parameters up to date without contributing: before an evaluation. By the chief alone, also after
  /// `leave`.
  virtual void refresh() = 0;

  /// This worker contributes no more. All workers call it after the same step in synchronous modes, so it may be
  /// collective.
  virtual void leave() = 0;

  /// What the checkpoint holds; nothing if this is no moment for one, or it was saved, or it is another worker's
  /// business. Valid until the next call. Where others than workers hold some of it, they write that, if they can:
  /// they have begun when this returns. Throws PeerLost, Timeout, StaleView.
  virtual std::optional<TrainingState> state(const SaveRequest& /*order*/) { return std::nullopt; }

  /// Makes a wait in progress fail; from any thread.
  virtual void interrupt(const std::string& reason) = 0;

  /// What this worker has moved so far; nothing = not counted.
  virtual std::optional<Communication> communication() const { return std::nullopt; }
};

}  // namespace trireme
