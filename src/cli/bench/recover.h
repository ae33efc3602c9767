#pragma once

#include <cstdint>

namespace trireme::cli {

struct BenchRecoverOptions {
  bool json = false;         ///< one JSON object instead of a table
  std::uint32_t rounds = 5;  ///< faults of each kind
};

/// Trains on this machine, kills and stops workers, servers and the master, and prints how soon training continued.
/// Every process is one of `trireme train`; none outlives the call. Takes some minutes. Returns 0, also if a job did
/// not survive: that is a result.
int bench_recover(const BenchRecoverOptions& options);

}  // namespace trireme::cli
