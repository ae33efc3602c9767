#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "tune/tune_state.h"

namespace trireme::tune {

struct TuneRunOptions {
  std::filesystem::path folder = {};
  bool quiet = false;                                ///< no progress line
  std::function<void(const std::string&)> say = {};  ///< told of each decision and result, a line each; null = nobody
};

struct TuneEnd {
  int signal = 0;  ///< what stopped it before its end; 0 = all trials are made
};

/// Trains the trials of `state` that are not made yet, several side by side, as decide_asha says, and puts what they
/// achieve into `state` and into tune.json. Each trial is a run in `folder`/trials, of `trireme train`, that goes on by
/// `trireme resume`: one that was killed continues from its last checkpoint, and ends with the same bits. Where trials
/// have more lanes than workers, workers that no other trial needs join those that run (`trireme scale`).
///
/// Blocks until all are made, or a signal (SIGINT, SIGTERM, SIGHUP) stops it; the trials then save a checkpoint. A
/// trial that ends with an error is tried again twice, unless its flags are wrong, and then counts as failed. Leaves no
/// process behind, however it ends. Throws IoError.
TuneEnd run_trials(TuneState& state, const TuneRunOptions& options);

/// Returns the folder of the run of one trial.
std::filesystem::path folder_of_trial(const std::filesystem::path& folder, std::size_t trial);

}  // namespace trireme::tune
