#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "trireme/sampler.h"

#include "base/numbers/lanes.h"
#include "cluster/membership.h"
#include "data/prefetch.h"

namespace trireme {

/// The lanes of one step that this worker computes, with their samples.
struct StepWork {
  Step step = 0;  ///< of the whole job: chooses samples, learning rate and random numbers
  LaneRange lanes;
  std::vector<data::Item> items;  ///< one per lane, in order
  bool pause = false;             ///< leased streams: nobody is at work, on any worker, after `step` whole steps, until
                                  ///< the chief calls `pass`; evaluate, save, and call it
  bool idle = false;              ///< leased streams: nothing to compute for now; others may be at work

  std::uint64_t samples() const;
};

/// What this worker does next. Reads ahead on a thread of its own.
class WorkStream {
 public:
  virtual ~WorkStream() = default;

  /// The next work, or nullopt when the run is over. `step` is the next step of this worker (it may have jumped ahead).
  virtual std::optional<StepWork> next(Step step) = 0;

  /// `work` is done and has taken effect; its buffers are used again.
  virtual void finish(StepWork work) = 0;

  /// This worker has made use of the pause; the chief's word ends it for all.
  virtual void pass() {}

  /// The view has ended: tells the master what is finished, and gives back the rest. Nothing follows.
  virtual void close() {}

  /// Leased streams: units that all workers together have finished, as last heard.
  virtual std::uint64_t finished_units() const { return 0; }
};

/// Synchronous modes: the same lanes of every step from `first` up to `steps`, read into memory of `allocate`, if
/// given.
std::unique_ptr<WorkStream> make_fixed_stream(std::shared_ptr<const data::Dataset> dataset,
                                              std::shared_ptr<const data::Sampler> sampler, LaneRange lanes, Step first,
                                              Step steps, data::Batch::Allocate allocate = {});

/// Asynchronous modes: single lanes of any step, leased from the master, so that fast workers do more of them and each
/// is done once.
std::unique_ptr<WorkStream> make_leased_stream(std::shared_ptr<const data::Dataset> dataset,
                                               std::shared_ptr<const data::Sampler> sampler,
                                               cluster::Membership& master, data::Batch::Allocate allocate = {});

}  // namespace trireme
