#pragma once

#include <cstdint>
#include <string>

namespace trireme::cli {

struct BenchCheckpointOptions {
  bool json = false;                 ///< one JSON object instead of tables
  std::uint64_t bytes = 1ull << 30;  ///< of state
  std::string folder = ".";          ///< on the disk to measure
  std::uint32_t rounds = 5;
};

/// Measures checkpoints on the disk of `options.folder` and prints the result to standard output: how long training
/// pauses, how fast the state gets to the disk beside `dd … bs=1M conv=fdatasync` of the same size in the same run,
/// taking turns, and how fast it comes back, from the disk and from the page cache; with one writer and with two. Needs
/// twice `options.bytes` of memory. What it writes is removed. Progress goes to standard error. Returns 0, or 1 after a
/// message if something failed; a target that is missed is a result, not a failure.
int bench_checkpoint(const BenchCheckpointOptions& options);

}  // namespace trireme::cli
