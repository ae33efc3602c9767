#pragma once

#include <compare>
#include <map>
#include <utility>
#include <vector>

#include "trireme/deadline.h"

#include "cluster/protocol.h"

namespace trireme::master {

/// A role and a slot: what stays the same when a process is restarted, or comes back as another member.
struct Seat {
  cluster::Role role = cluster::Role::kWorker;
  std::uint32_t slot = 0;
  auto operator<=>(const Seat&) const = default;
};

/// Which members cannot be in one view at the moment, because they reach the master, but not each other. They try to
/// reach each other, and may meet again when one has got an answer; but not before a while has passed, which is twice
/// as long each time: a network may answer the small question, and fail again under load. A value; the master's lock
/// guards it.
class ApartPairs {
 public:
  using Time = Deadline::Clock::time_point;
  using Pair = std::pair<Seat, Seat>;  ///< the smaller one first

  /// One of the two did not get an answer from the other. Returns false if that was known.
  bool add(const Seat& one, const Seat& other, Time now);

  /// One of the two has got an answer from the other. Returns whether they may meet again for that reason.
  bool reached(const Seat& one, const Seat& other, Time now);

  /// Returns those that are kept apart.
  std::vector<Pair> all() const;

  /// Returns whom the member in `seat` should try to reach now.
  std::vector<Seat> to_try(const Seat& seat, Time now) const;

 private:
  struct Entry {
    bool apart = false;
    Time until = {};               ///< at least
    std::chrono::seconds last{0};  ///< for how long they were kept apart at least
  };

  std::map<Pair, Entry> entries_;
};

}  // namespace trireme::master
