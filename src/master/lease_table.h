#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "cluster/protocol.h"

namespace trireme::master {

/// How many units the next lease holds: large while there is much to do (fewer questions), one at the end (nobody waits
/// long for a slow worker's last lease). Guided self-scheduling (Polychronopoulos and Kuck 1987).
std::uint64_t lease_size(std::uint64_t remaining, std::uint32_t workers);

/// How much work there is to lease.
struct LeasePlan {
  std::uint64_t total = 0;
  std::uint32_t workers = 1;      ///< about how many will ask
  std::uint64_t pause_every = 0;  ///< units: see LeaseTable::paused; 0 = never
};

/// What a table has to remember of itself, for one that is opened later. Leases are not among it: what was given out
/// and not finished is open.
struct LeaseMemory {
  std::uint64_t end = 0;   ///< of the units that are to be done
  std::uint64_t next = 0;  ///< from here on nothing was ever given out
  std::uint64_t passed = 0;
  std::vector<cluster::UnitRange> open;  ///< below `next`
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(LeaseMemory, end, next, passed, open)
};

/// Gives out units 0..total-1, each to one worker, and knows which are finished. A value: no clock, no threads.
///
/// What it knows may be a little old, if it was opened from memory: then units are given out that somebody has
/// finished, or still holds. The parameters count each unit once whoever brings it, so that costs time and nothing
/// else; and `finish` may be called with units that the table does not know to be held.
class LeaseTable {
 public:
  LeaseTable() = default;
  explicit LeaseTable(const LeasePlan& plan) : LeaseTable(plan, {.end = plan.total}) {}

  /// Throws Corrupt if the memory cannot be.
  LeaseTable(const LeasePlan& plan, const LeaseMemory& memory);

  /// The next lease of `worker`; empty if nothing is to be given out now.
  cluster::UnitRange next(cluster::MemberId worker);

  /// Those of `range` that were not finished before are now. Throws InvalidArgument if there are no such units.
  void finish(cluster::UnitRange range);

  /// Takes back what `worker` has not finished; it will be given out again first.
  void give_back(cluster::MemberId worker);

  /// Begins again with exactly the first `units` finished: somebody has gone back to a checkpoint.
  void rewind(std::uint64_t units);

  /// Ends with what has been given out so far, and what is missing to a multiple of `whole`.
  void stop_early(std::uint64_t whole);

  /// True when exactly the units up to a multiple of `pause_every` are finished: the moment for a checkpoint. Nothing
  /// is given out until `pass(finished())`.
  bool paused() const { return finished_ == pause_at() && finished_ < end_; }
  void pass(std::uint64_t units);

  /// Leaves out the pause that the table has come to, if it has: it would be too soon.
  void skip_pause();

  bool over() const { return finished_ == end_; }
  std::uint64_t finished() const { return finished_; }
  LeaseMemory memory() const;

 private:
  std::uint64_t pause_at() const;

  LeasePlan plan_;
  std::uint64_t end_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t finished_ = 0;
  std::uint64_t passed_ = 0;                  // the last pause that is over
  std::vector<cluster::UnitRange> returned_;  // below next_, neither held nor finished
  std::map<cluster::MemberId, std::vector<cluster::UnitRange>> held_;
};

}  // namespace trireme::master
