#pragma once

#include <cstdint>

namespace trireme::cli {

struct BenchObserveOptions {
  bool json = false;
  std::uint32_t steps = 400;    ///< of the training that is measured
  std::uint32_t workers = 300;  ///< that the page is told of
};

/// Measures what it costs to be watched: what a worker does for it in a step of LeNet, and what the master does while a
/// page is open. Prints a table, or JSON. Returns the exit status.
int bench_observe(const BenchObserveOptions& options);

}  // namespace trireme::cli
