#pragma once

#include <cstdint>
#include <string>

namespace trireme::cli {

struct BenchInputOptions {
  bool json = false;                 ///< one JSON object instead of tables
  std::uint64_t bytes = 1ull << 30;  ///< of each file that is read where it is; those of other sources are smaller
  std::string folder = ".";          ///< where they are written; removed again
  std::uint32_t rounds = 3;
};

/// Measures how fast samples come out of every source on one core, in order and in random order, beside a plain read of
/// the same files from the page cache in blocks of 1 MiB, as dd does it; taking turns, in time computed, the median
/// counts. Prints the result to standard output. Returns 0, or 1 after a message if something failed; a target that is
/// missed is a result, not a failure.
int bench_input(const BenchInputOptions& options);

}  // namespace trireme::cli
