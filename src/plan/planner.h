#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/predict.h"

namespace trireme::plan {

/// What to plan. What is set is kept; the rest is tried.
struct PlanRequest {
  Workload workload;
  Hardware hardware;
  std::optional<Mesh> mesh = {};
  std::optional<std::uint32_t> tensor = {};  ///< of a mesh that is not set
  std::optional<std::uint32_t> zero = {};
  std::optional<ScheduleKind> schedule = {};
  std::optional<std::uint32_t> chunks = {};
  std::optional<std::uint32_t> micro_batches = {};
  std::optional<std::uint64_t> lanes = {};  ///< micro-batches of all data ranks together
  std::optional<bool> recompute = {};
  bool offload = false;      ///< parameter servers hold the optimizer's state
  std::uint32_t shards = 0;  ///< ranks among which ZeRO divides; 0 = all of the dimension data
};

struct Candidate {
  Arrangement arrangement;
  Prediction prediction;
  bool fits = false;  ///< into the memory of every worker
};

/// Something that can be changed where a request does not fit, and what comes of it.
struct Knob {
  std::string change;  ///< "--zero 1", "--workers 128"
  std::string effect;  ///< "fits: 21.3 GB of 24.0 GB, step 1.04 times as long"
};

struct Plan {
  std::vector<Candidate> candidates;  ///< those that fit, fastest first; if none does, the smallest first
  std::size_t considered = 0;
  std::size_t fitting = 0;
  std::vector<std::string> reasons;  ///< why the first candidate is recommended, or what stands in the way
  std::vector<Knob> knobs;           ///< only where nothing fits

  bool fits() const { return fitting > 0; }
  const Candidate& best() const { return candidates.front(); }
};

/// Tries all meshes of the workers, with ZeRO 0 to 3, the schedules, numbers of micro-batches and recomputation, and
/// recommends the fastest that fits; of those within 2 % of it, the simplest. A pure function. Throws InvalidArgument
/// with the reason, and the nearest that is possible, if what is set leaves no arrangement at all.
Plan make_plan(const PlanRequest& request);

/// Returns all arrangements that are possible for the request; empty if there is none.
std::vector<Arrangement> arrangements(const PlanRequest& request);

/// Returns what is predicted for each of them, in the same order.
std::vector<Candidate> predict_all(const PlanRequest& request);

}  // namespace trireme::plan
