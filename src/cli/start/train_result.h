#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "cli/flags/train_flags.h"
#include "launch/job/job_runner.h"
#include "observe/run_folder.h"

namespace trireme::cli {

// What a training tells people, and scripts, when it has ended.

/// Returns "allreduce", "ps:bsp".
std::string describe_strategy(const TrainFlags& flags);

/// Prints how good the model is, what the run folder holds, and what to try next; `command` is how a training of this
/// program is started.
void tell_result(const launch::JobOutcome& outcome, const observe::RunFolder& folder, const TrainFlags& flags,
                 const std::string& command);

/// Prints that a run which was asked to go on has made its steps.
void tell_nothing_left(const nlohmann::json& result, const observe::RunFolder& folder);

/// Prints the result as one line.
void print_json(nlohmann::json result, const observe::RunFolder& folder);

}  // namespace trireme::cli
