#pragma once

#include <cstdint>
#include <vector>

#include "trireme/types.h"

namespace trireme::cli {

struct BenchCrowdOptions {
  bool json = false;                                 ///< one JSON object instead of a table
  std::vector<std::uint32_t> workers{10, 100, 300};  ///< jobs of these sizes, one after the other
  std::uint32_t servers = 2;
  Step steps = 200;  ///< half of them before the deaths
};

/// Runs jobs of many workers that push to servers and do no arithmetic; kills a tenth of the workers at once, half-way,
/// and prints how soon training continued, and what master and servers hold. Every process is one of `trireme run`;
/// none outlives the call. Returns 1 if a job failed.
int bench_crowd(const BenchCrowdOptions& options);

/// What the workers of such a job run: pushes until it is told to stop, and records its steps. Returns the status of
/// the process.
int crowd_worker();

}  // namespace trireme::cli
