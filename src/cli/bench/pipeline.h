#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace trireme::cli {

struct BenchPipelineOptions {
  bool json = false;  ///< one JSON object instead of tables
  /// ranks:micro-batches
  std::vector<std::string> shapes = {"2:1", "2:8", "3:2", "4:4", "4:16", "8:8", "8:32", "16:16", "16:64"};
  std::vector<std::string> schedules = {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"};
  double milliseconds = 10;        ///< of a rank's forward; input and weight gradients take as long each
  std::uint64_t bytes = 1u << 16;  ///< of a message
  std::uint32_t rounds = 3;        ///< how often each is run; the least disturbed counts
};

/// Runs pipelines whose stages sleep instead of computing, so that 16 of them fit on two cores, with the messages of
/// real ones; the ranks are threads of this process. Compares the time of a step, and its bubble, with the formula and
/// with the schedule's simulation at the measured time of a message; and the activations held with the plan's. Prints
/// the result to standard output. Returns 0, or 1 after a message if something failed; a target that is missed is a
/// result, not a failure.
int bench_pipeline(const BenchPipelineOptions& options);

}  // namespace trireme::cli
