#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "cluster/protocol.h"

namespace trireme::master {

/// Returns the size of the next lease in units: large while there is much to do (fewer requests), one at the end (no
/// long wait for a slow worker's last lease). Guided self-scheduling (Polychronopoulos and Kuck 1987).
std::uint64_t lease_size(std::uint64_t remaining, std::uint32_t workers);

/// How much work there is to lease.
struct LeasePlan {
  std::uint64_t total = 0;
  std::uint32_t workers = 1;      ///< about how many will request work
  std::uint64_t pause_every = 0;  ///< units: see LeaseTable::paused; 0 = never
};

/// The state of a table that is saved for a later one. Leases are not part of it: units that were leased and not
/// finished are open.
struct LeaseMemory {
  std::uint64_t end = 0;   ///< of the units to be done
  std::uint64_t next = 0;  ///< no unit from here on was ever leased
  std::uint64_t passed = 0;
  std::vector<cluster::UnitRange> open;  ///< below `next`: not finished
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(LeaseMemory, end, next, passed, open)
};

/// Leases units 0..total-1, each to one worker, and tracks which are finished. A value: no clock, no threads.
///
/// A table restored from memory may be slightly outdated: it then leases units that a worker has finished or still
/// holds. The parameters count each unit once, whoever computes it, so that only costs time; and `finish` accepts units
/// that the table does not know to be leased.
class LeaseTable {
 public:
  LeaseTable() = default;
  explicit LeaseTable(const LeasePlan& plan) : LeaseTable(plan, {.end = plan.total}) {}

  /// Throws Corrupt if the memory is inconsistent.
  LeaseTable(const LeasePlan& plan, const LeaseMemory& memory);

  /// Returns the next lease of `worker`; empty if there is nothing to lease now.
  cluster::UnitRange next(cluster::MemberId worker);

  /// Marks the units of `range` as finished, if they are not yet. Throws InvalidArgument if there are no such units.
  void finish(cluster::UnitRange range);

  /// Takes back what was leased to `worker` and is neither finished nor among `units`, which it still holds; it is
  /// leased again before anything else. A lease whose answer was lost comes back in this way.
  void keep_only(cluster::MemberId worker, const std::vector<cluster::UnitRange>& units);

  /// Takes back all that `worker` has not finished.
  void give_back(cluster::MemberId worker) { keep_only(worker, {}); }

  /// Starts again with exactly the first `units` finished: the job went back to a checkpoint.
  void rewind(std::uint64_t units);

  /// Ends with the units leased so far, rounded up to a multiple of `whole`.
  void stop_early(std::uint64_t whole);

  /// Returns true when exactly the units up to a multiple of `pause_every` are finished: the moment for a checkpoint.
  /// Nothing is leased until `pass(finished())`.
  bool paused() const { return finished_ == pause_at() && finished_ < end_; }
  void pass(std::uint64_t units);

  /// Pauses once more, as soon as what was leased so far is finished, rounded up to a multiple of `whole`.
  void pause_soon(std::uint64_t whole);

  /// Skips the pause that the table has reached, if any: it would be too soon.
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
  std::uint64_t passed_ = 0;                  // the last pause that ended
  std::uint64_t extra_pause_ = 0;             // that somebody asked for; not saved: 0 = none
  std::vector<cluster::UnitRange> returned_;  // below next_, neither leased nor finished
  std::map<cluster::MemberId, std::vector<cluster::UnitRange>> held_;
};

}  // namespace trireme::master
