#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/numbers/lanes.h"
#include "base/spans.h"
#include "base/step.h"
#include "net/buffer_pool.h"
#include "optim/loss_scale.h"
#include "optim/update_rule.h"
#include "ps/protocol.h"
#include "ps/unit_set.h"

namespace trireme::ps {

class ReplicaLink;

/// Somebody who waits for chunks: told once per chunk, perhaps under the chunk's lock and on another thread.
class ChunkWaiter {
 public:
  virtual ~ChunkWaiter() = default;
  virtual void chunk_done(const StepOutcome& outcome) = 0;

  /// Instead, where the job weighs and the chunk was pushed: all gradients of the step are there, nothing is applied.
  virtual void chunk_weighed(const RoundWeight& /*weight*/) {}

  /// There will be no answer: the view has ended, or the replica is lost. Whether the update was made is not known.
  virtual void chunk_refused(const std::exception& reason) = 0;
};

/// An answer and who gets it.
struct DeferredReply {
  std::shared_ptr<ChunkWaiter> waiter;
  StepOutcome outcome;  ///< of the one chunk
};

/// Returns the same answers for each of `count` replicas to give: the waiters are told when all have, or one refuses.
std::vector<DeferredReply> answered_by_all(std::vector<DeferredReply> reply, std::size_t count);

/// A push or pull of one chunk, until it is answered.
struct ChunkRequest {
  View view = 0;
  Rank worker = 0;                  ///< in that view
  StepInfo info;                    ///< of a push
  const float* gradient = nullptr;  ///< sum over samples; valid until `waiter` is told
  float* copy_to = nullptr;         ///< where the new parameters go first; may be `gradient`; null = nowhere
  double prune_below = 0;           ///< of a push: see UpdateInput
  bool applies = false;             ///< see apply_weighed
  bool counts = true;               ///< false: it was applied before, and is only answered
  std::shared_ptr<ChunkWaiter> waiter;
};

/// Memory with a header's floats: parameters, then state.
struct ChunkState {
  std::shared_ptr<std::byte> memory;
  std::size_t bytes = 0;
};

/// What all chunks of a job have in common.
struct ChunkPolicy {
  optim::UpdateConfig update;
  Consistency consistency;
  Lane lanes = 1;
  bool weighs = false;                    ///< bsp: a round is weighed, and applied when its factor is known
  bool skips = false;                     ///< likewise: the factor may be kLeaveOut
  std::shared_ptr<net::BufferPool> pool;  ///< for what goes to replicas; may be null where there are none
  Step snapshot_every = 0;                ///< bsp: `on_snapshot` gets every version that is a multiple of it; 0 = none
  std::function<void(const ChunkHeader&, ChunkState)> on_snapshot;  ///< may be null; under the chunk's lock
  SpanRecorder* spans = nullptr;                                    ///< what updates take; null: nobody wants to know
};

/// A chunk of parameters with its optimizer state: the unit of locking and consistency. Thread-safe.
///
/// Processes that map the parameters read them without asking: `version_word` is odd while an update is being written
/// and changes with every one (a seqlock), so a reader knows whether its copy is of one version.
///
/// It belongs to one view at a time: what comes from another is refused. In bsp a round is complete when the lanes of
/// its gradients cover all lanes (or when at most `backup_workers` workers are missing); a gradient for a version that
/// was made already is answered as done, so after a failure workers just push the step again. In ssp and asp each
/// gradient carries its unit, and units that were applied are answered as done.
class Chunk {
 public:
  /// Where a chunk belongs: Layout::chunks() and the shard there.
  struct ChunkId {
    std::uint32_t index = 0;
    std::uint32_t shard = 0;
    bool sums = false;  ///< see TableSpec, as the next three
    std::uint64_t scale_growth = 0;
    double lr = 1;
    double decay = 1;
  };

  /// `parameters` and `version_word` live in the shard's segment. State is allocated here. In view 0: nobody may push.
  Chunk(const ChunkPolicy& policy, ChunkId id, std::span<float> parameters, std::atomic<std::uint64_t>* version_word);

  /// Goes to a later view. Who waits is refused with StaleView, so nobody's gradient is read any more. The clocks
  /// of its `workers` start anew, all at the same. From now on answers go through `links`, to the replica and to a copy
  /// being filled, as far as there are any; updates do as soon as a link has called `link`.
  void enter(View view, std::uint32_t workers, std::vector<std::shared_ptr<ReplicaLink>> links);

  /// Sets the initial values. Idempotent until the first update; later ones are ignored (a restarted chief).
  void assign(std::span<const float> values, View view, std::shared_ptr<ChunkWaiter> waiter);

  /// Makes it what it was when `header` and `values` (see state()) were saved, whatever it is now.
  /// Throws StaleView, Corrupt (sizes, units); then nothing has changed.
  void restore(const ChunkHeader& header, std::span<const float> values, View view,
               std::shared_ptr<ChunkWaiter> waiter);

  /// From now on it waits for initial values, or to be restored.
  void clear(View view);

  /// Takes a gradient; the waiter is told when the worker may go on and the replica has the update, by this call or by
  /// a later one. Throws InvalidArgument if the request is invalid (worker, lanes), StaleView; then the waiter is not
  /// told.
  void push(ChunkRequest request);

  /// Where the job weighs: makes the update of the step `request.info.step`, whose gradients have been weighed, with
  /// their mean times `factor`, or leaves it out (kLeaveOut); the first worker to ask does it for all. Of `request`
  /// view, worker, step, copy_to and waiter count. Throws InvalidArgument if that step has not been weighed, StaleView;
  /// then the waiter is not told.
  void apply_weighed(ChunkRequest request, double factor);

  /// Asks for the parameters as they are now; of `request` only view, worker, copy_to and waiter count. Before the
  /// initial values are there, the waiter waits for them. What it gets, the replica has.
  void pull(ChunkRequest request);

  /// The worker pushes nothing for now, or no more: nobody waits for it. In ssp and asp it may push again; its clock
  /// is then at least that of the slowest.
  void leave(Rank worker);

  // For replicas.

  /// Makes an update that the primary has made. Throws StaleView, Corrupt if it is not the next one.
  void replicate(const ReplicaUpdate& update, std::span<const float> gradient, View view);

  /// Takes the primary's whole state. Throws like `restore`.
  void install(const ChunkHeader& header, std::span<const float> values, View view);

  // For primaries.

  /// Called by the chunk's replica when it knows what the replica has: gives it the whole chunk if that differs, and
  /// every update from now on. Does nothing if `caller` is not (or no more) its replica.
  void link(const ReplicaLink* caller, std::uint64_t replica_history);

  /// All of it: header, parameters, state.
  std::pair<ChunkHeader, ChunkState> state();

  /// Gives itself to `on_snapshot` as it is at `version`: now, or (bsp) with the one update that it lacks. False if it
  /// is at no such version. Throws StaleView.
  bool snapshot_at(Step version, View view);

  std::uint64_t history();

  /// Whether its initial values are there, and how many steps it has seen.
  std::pair<bool, Step> load_status();

  /// How many steps each worker has been told are finished, and the largest lead one ever had over another.
  struct Clocks {
    std::vector<Step> finished;  ///< by worker
    Step spread_max = 0;
  };
  Clocks clocks();

  std::uint32_t index() const { return id_.index; }
  bool sums() const { return id_.sums; }
  std::size_t state_bytes() const { return state_floats() * sizeof(float); }
  std::size_t state_and_parameter_floats() const { return parameters_.size() + state_floats(); }
  std::span<float> parameters() { return parameters_; }

 private:
  struct Worker {
    Step start = 0;             // its clock when the view began
    std::optional<Step> first;  // the step of its first push in this view
    Step clock = 0;             // start + pushes since then
    bool left = false;
    Step known_finished = 0;  // what it knows is finished
    Step seen = 0;            // the version that it last got (staleness)
  };

  struct Link {
    std::shared_ptr<ReplicaLink> to;
    bool linked = false;  ///< it gets every update
  };

  struct Forward {
    ReplicaUpdate update;
    std::shared_ptr<std::byte> gradient;
  };

  std::size_t state_floats() const { return id_.sums ? 0 : optim::state_floats(policy_.update) * parameters_.size(); }
  void check_view(View view) const TRIREME_REQUIRES(mutex_);
  void check(const ChunkRequest& request) const TRIREME_REQUIRES(mutex_);
  void push_synchronous(ChunkRequest request) TRIREME_REQUIRES(mutex_);
  void push_at_once(ChunkRequest request) TRIREME_REQUIRES(mutex_);
  bool round_ready(std::span<const ChunkRequest* const> round) const TRIREME_REQUIRES(mutex_);
  std::vector<const ChunkRequest*> present_round() const TRIREME_REQUIRES(mutex_);
  void finish_rounds() TRIREME_REQUIRES(mutex_);
  void weigh_round() TRIREME_REQUIRES(mutex_);
  RoundWeight weigh(std::span<const ChunkRequest* const> round) const TRIREME_REQUIRES(mutex_);
  std::optional<Forward> apply_round(std::span<const ChunkRequest* const> round, double factor)
      TRIREME_REQUIRES(mutex_);
  void forget_round() TRIREME_REQUIRES(mutex_);
  void release_held() TRIREME_REQUIRES(mutex_);
  std::optional<Forward> apply(std::span<const ChunkRequest* const> requests, double factor) TRIREME_REQUIRES(mutex_);
  std::optional<std::array<float, optim::LossScale::kFloats>> next_scale(std::span<const Partial> partials,
                                                                         bool left_out) const TRIREME_REQUIRES(mutex_);
  void update_parameters(const optim::UpdateInput& input, std::span<const Partial> partials, float* keep_sum)
      TRIREME_REQUIRES(mutex_);
  DeferredReply answer(const ChunkRequest& request, bool counted) TRIREME_REQUIRES(mutex_);
  bool any_linked() const TRIREME_REQUIRES(mutex_);
  void dispatch(const std::optional<Forward>& forward, std::vector<DeferredReply> reply) TRIREME_REQUIRES(mutex_);
  void dispatch_whole(std::vector<DeferredReply> reply) TRIREME_REQUIRES(mutex_);
  void take(const ChunkHeader& header, std::span<const float> values) TRIREME_REQUIRES(mutex_);
  std::pair<ChunkHeader, ChunkState> copy_state() const TRIREME_REQUIRES(mutex_);
  void give_snapshot() const TRIREME_REQUIRES(mutex_);
  void measure_spread() TRIREME_REQUIRES(mutex_);
  static Step advance(Worker& worker, Step step);
  Step slowest_clock() const TRIREME_REQUIRES(mutex_);

  const ChunkPolicy& policy_;
  const ChunkId id_;
  const optim::UpdateConfig update_;  // of its table
  const std::span<float> parameters_;
  std::atomic<std::uint64_t>* const version_word_;

  Mutex mutex_;  // also for writes to parameters_
  View view_ TRIREME_GUARDED_BY(mutex_) = 0;
  std::vector<float> state_ TRIREME_GUARDED_BY(mutex_);
  Step version_ TRIREME_GUARDED_BY(mutex_) = 0;                 // steps; some of them without samples
  Step updates_ TRIREME_GUARDED_BY(mutex_) = 0;                 // steps that changed something: what the rule counts
  std::uint64_t history_ TRIREME_GUARDED_BY(mutex_) = 0;        // see ChunkHeader
  bool assigned_ TRIREME_GUARDED_BY(mutex_) = false;            // the initial values are there
  Step snapshot_wanted_ TRIREME_GUARDED_BY(mutex_) = 0;         // a version that is to come; 0 = none
  std::vector<ChunkRequest> early_ TRIREME_GUARDED_BY(mutex_);  // pulls that came before them
  bool stop_ TRIREME_GUARDED_BY(mutex_) = false;
  UnitSet units_ TRIREME_GUARDED_BY(mutex_);                // ssp, asp: what was applied
  std::vector<Worker> workers_ TRIREME_GUARDED_BY(mutex_);  // by rank
  Step spread_max_ TRIREME_GUARDED_BY(mutex_) = 0;          // see Clocks
  /// bsp: gradients not yet used; ssp: applied, but held back.
  std::vector<ChunkRequest> waiting_ TRIREME_GUARDED_BY(mutex_);
  // Where the job weighs:
  std::optional<RoundWeight> weighed_ TRIREME_GUARDED_BY(mutex_);  // the present round, of which all is in waiting_
  RoundWeight last_weight_ TRIREME_GUARDED_BY(mutex_);             // of the round that made the present version
  bool last_regroup_ TRIREME_GUARDED_BY(mutex_) = false;           // and whether somebody asked for that in it
  std::vector<Link> links_ TRIREME_GUARDED_BY(mutex_);             // to the replica, and to a copy being filled
};

}  // namespace trireme::ps
