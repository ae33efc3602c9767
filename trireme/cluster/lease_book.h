#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "trireme/cluster/protocol.h"

namespace trireme::cluster {

/// How many units the next lease holds: large while there is much to do (fewer questions), one at the end (nobody waits
/// long for a slow worker's last lease). Guided self-scheduling (Polychronopoulos and Kuck 1987).
std::uint64_t lease_size(std::uint64_t remaining, std::uint32_t workers);

/// Gives out units 0..total-1, each to one worker, and knows which are finished. A value: no clock, no threads.
class LeaseBook {
 public:
  LeaseBook() = default;
  LeaseBook(std::uint64_t total, std::uint32_t workers) : total_(total), workers_(workers) {}

  /// The next lease of `worker`; empty if nothing is left to give out.
  UnitRange next(MemberId worker);

  /// Throws InvalidArgument if `worker` does not hold `range`.
  void finish(MemberId worker, UnitRange range);

  /// Takes back what `worker` has not finished; it will be given out again first.
  void give_back(MemberId worker);

  bool over() const { return finished_ == total_; }
  std::uint64_t finished() const { return finished_; }

 private:
  std::uint64_t total_ = 0;
  std::uint32_t workers_ = 1;
  std::uint64_t next_ = 0;
  std::uint64_t finished_ = 0;
  std::vector<UnitRange> returned_;
  std::map<MemberId, std::vector<UnitRange>> held_;
};

}  // namespace trireme::cluster
