#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tune/tune_state.h"

namespace trireme::tune {

// How the trials of a search stand, for people and for scripts. Nothing here depends on time: two searches that found
// the same say the same.

/// Returns the trials that have a result, the best first; those that failed come last.
std::vector<std::size_t> ranked_trials(const TuneState& state);

/// Returns them as lines with a heading: place, trial, values, steps, metric, how it ended.
std::string to_table(const TuneState& state);

/// Returns the metric of each trial over its steps, as an SVG file.
std::string to_picture(const TuneState& state);

/// Returns `trireme train ...` that trains as this trial did, or would have if it had gone on to its end; quoted for a
/// shell.
std::string command_of(const TuneState& state, std::size_t trial);

/// Returns all of this for scripts.
nlohmann::json to_object(const TuneState& state);

}  // namespace trireme::tune
