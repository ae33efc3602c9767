#pragma once

#include <map>
#include <utility>
#include <vector>

#include "trireme/deadline.h"

#include "cluster/protocol.h"

namespace trireme::master {

/// Two members that reach the master, but not each other.
using ApartPair = std::pair<cluster::MemberId, cluster::MemberId>;

/// Which members cannot be in one view at the moment. Networks are repaired: after a while such a pair may try again;
/// if in vain, after twice that time, and so on. A value; the master's lock guards it.
class ApartPairs {
 public:
  using Time = Deadline::Clock::time_point;

  /// One of the two did not get an answer from the other.
  void add(cluster::MemberId one, cluster::MemberId other, Time now);

  /// Returns those that are kept apart now.
  std::vector<ApartPair> at(Time now) const;

 private:
  struct Entry {
    Time until = {};
    std::chrono::minutes last{0};  ///< for how long they were kept apart
  };

  std::map<ApartPair, Entry> entries_;
};

}  // namespace trireme::master
