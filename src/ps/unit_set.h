#pragma once

#include <cstdint>
#include <vector>

#include "cluster/protocol.h"

namespace trireme::ps {

/// Which units of work have been applied, as runs of neighbours: units are given out in order, so there are hardly more
/// runs than workers, however long the job. A value.
class UnitSet {
 public:
  UnitSet() = default;

  /// Takes runs as `runs()` gives them. Throws Corrupt if they are empty, out of order, or touch each other.
  explicit UnitSet(std::vector<cluster::UnitRange> runs);

  /// False if `unit` was in the set already.
  bool insert(std::uint64_t unit);

  bool contains(std::uint64_t unit) const;

  /// In ascending order, none empty, none touching the next.
  const std::vector<cluster::UnitRange>& runs() const { return runs_; }

  bool operator==(const UnitSet&) const = default;

 private:
  std::vector<cluster::UnitRange> runs_;
};

}  // namespace trireme::ps
