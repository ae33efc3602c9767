#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "trireme/base/lanes.h"
#include "trireme/ps/consistency.h"
#include "trireme/ps/update_rule.h"

namespace trireme::ps {

/// What a chunk tells about itself when it lets a worker go on.
struct ChunkReply {
  Step version = 0;     ///< updates applied so far
  bool counted = true;  ///< false: the gradient came too late, or for the second time, and was dropped
  bool stop = false;    ///< some worker asked to stop; in bsp all workers see it after the same step
};

/// Somebody who waits for chunks: told once per chunk, perhaps under the chunk's lock and on another thread.
class ChunkWaiter {
 public:
  virtual ~ChunkWaiter() = default;
  virtual void chunk_done(const ChunkReply& reply) = 0;
};

/// A worker's gradient of one step for one chunk, or what is needed to answer it.
struct Contribution {
  Rank worker = 0;
  Step step = 0;       ///< steps this worker had finished before: also the sequence number of its pushes
  LaneRange lanes;     ///< whose sum it is
  double samples = 0;  ///< how many samples it sums: its weight in the average
  double lr = 0;
  bool stop = false;                ///< ask everybody to stop after this step
  const float* gradient = nullptr;  ///< sum over samples; valid until `waiter` is told
  float* copy_to = nullptr;         ///< where the new parameters go first; may be `gradient`; null = nowhere
  std::shared_ptr<ChunkWaiter> waiter;
};

/// What all chunks of a job have in common.
struct ChunkPolicy {
  UpdateConfig update;
  Consistency consistency;
  std::uint32_t workers = 1;
  Lane lanes = 1;
};

/// A chunk of parameters with its optimizer state: the unit of placement, locking and consistency. Thread-safe.
///
/// Processes that map the parameters read them without asking: `version_word` is odd while an update is being written
/// and changes with every one (a seqlock), so a reader knows whether its copy is of one version.
class Chunk {
 public:
  /// `parameters` and `version_word` live in the server's segment. State is allocated here.
  Chunk(const ChunkPolicy& policy, std::span<float> parameters, std::atomic<std::uint64_t>* version_word);

  /// Sets the initial values. Idempotent until the first update; later ones are ignored (a restarted chief).
  void assign(std::span<const float> values);

  /// Takes a gradient; the waiter is told when the worker may go on, by this call or by a later one.
  /// Throws InvalidArgument if the contribution cannot be (worker, lanes); then the waiter is not told.
  void push(Contribution contribution);

  /// Asks for the parameters as they are now; of `request` only worker, copy_to and waiter count. Before the initial
  /// values are there, the waiter waits for them.
  void pull(Contribution request);

  /// The worker will push no more: nobody waits for it.
  void leave(Rank worker);

  /// How many steps each worker has been told are finished, and the largest lead one ever had over another.
  struct Clocks {
    std::vector<Step> finished;  ///< by worker
    Step spread_max = 0;
  };
  Clocks clocks();

  std::size_t state_bytes() const { return state_.size() * sizeof(float); }
  std::span<float> parameters() { return parameters_; }

 private:
  void push_synchronous(Contribution contribution);
  void push_at_once(Contribution contribution);
  void finish_rounds();
  void release_held();
  void apply(std::span<const Contribution* const> contributions, double factor);
  void answer(const Contribution& contribution, bool counted);
  void measure_spread();
  Step slowest_clock() const;
  std::uint32_t active_workers() const;

  const ChunkPolicy& policy_;
  const std::span<float> parameters_;
  std::atomic<std::uint64_t>* const version_word_;

  std::mutex mutex_;  // guards all below, and writes to parameters_
  std::vector<float> state_;
  Step version_ = 0;                 // steps; some of them without samples
  Step updates_ = 0;                 // steps that changed something: what the rule counts
  bool assigned_ = false;            // the initial values are there
  std::vector<Contribution> early_;  // pulls that came before them
  bool stop_ = false;
  std::vector<bool> left_;             // by worker
  Clocks told_;                        // what the workers know
  std::vector<Step> clock_;            // by worker: pushes applied (ssp, asp)
  std::vector<Step> seen_version_;     // by worker: version it last got (staleness)
  std::vector<Contribution> waiting_;  // bsp: gradients not yet used; ssp: applied, but held back
};

}  // namespace trireme::ps
