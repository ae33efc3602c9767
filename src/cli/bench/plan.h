#pragma once

#include <cstdint>
#include <string>

namespace trireme::cli {

struct BenchPlanOptions {
  bool json = false;
  std::string model = "gpt-tiny:layers=4,width=128";
  std::uint64_t length = 64;
  std::uint64_t batch = 16;
  std::uint32_t steps = 40;  ///< of each training
};

/// Measures this machine (`trireme plan --calibrate`), then trains the model on fourteen layouts of 1, 2 and 4 workers,
/// and prints what the planner predicts of each, steps and memory, beside what is measured. Progress goes to standard
/// error. Forks: call it before the process has threads. Returns 0, or 1 if a training failed. Throws as `calibrate`
/// does.
int bench_plan(const BenchPlanOptions& options);

}  // namespace trireme::cli
