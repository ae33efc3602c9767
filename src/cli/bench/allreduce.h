#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace trireme::cli {

struct BenchAllReduceOptions {
  std::string device = "cpu";  ///< whose memory the sums are made in; others: see bench_device_sums
  bool json = false;           ///< one JSON object instead of tables
  bool peers = false;          ///< also measure OpenMPI and gloo, where they are built
  unsigned rounds = 3;         ///< each is measured this often, in turns with the others; its best round counts
  std::vector<unsigned> ranks = {2, 4};
  std::vector<std::size_t> bytes = {4u << 10, 64u << 10, 1u << 20, 16u << 20, 100u << 20};
  std::vector<std::string> transports = {"shm", "tcp"};
};

/// Measures all-reduce (float32 sum, in place) on this machine and prints the result to standard output: every
/// implementation, in turns, by the same method (bench/peers/measure.h), then the ratios, then how they compare with
/// our targets. Progress goes to standard error.
///
/// Every rank is a process of its own: call it before the process has threads. None of them outlives the call, or the
/// process. Returns 0, or 1 after a message if one of them failed; a target that is missed is a result, not a failure.
int bench_allreduce(const BenchAllReduceOptions& options);

}  // namespace trireme::cli
