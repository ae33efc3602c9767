#pragma once

#include "plan/planner.h"

namespace trireme::plan {

// The words of a plan: for `make_plan`.

/// Returns why the plan's first candidate comes first: what it takes, what the simpler ones lack, where its time goes.
/// If nothing fits: by how much, and what takes the memory.
std::vector<std::string> explain_choice(const PlanRequest& request, const Plan& plan);

/// Returns the single changes that make something fit, and what each gives; if none does, how much memory would.
std::vector<Knob> find_knobs(const PlanRequest& request);

/// "21.3 GB": decimal, as memory is sold.
std::string gigabytes(double bytes);

/// "1.25 s", "83 ms", "120 us".
std::string duration_text(double seconds);

}  // namespace trireme::plan
