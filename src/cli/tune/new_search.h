#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/flags/train_flags.h"
#include "tune/tune_state.h"

namespace trireme::cli {

/// What `trireme tune` is asked to do.
struct TuneFlags {
  TrainFlags train;
  std::vector<std::string> space;
  std::uint32_t trials = 27;
  bool asha = false;
  bool random = false;
  bool grid = false;
  std::string metric;  ///< empty = the first one of the task
  double eta = 3;
  std::uint32_t rungs = 0;     ///< 0 = by the number of trials
  std::uint32_t parallel = 0;  ///< 0 = by the number of cores
  std::string resume;          ///< folder of a search to go on with

  std::string method() const { return grid ? "grid" : random ? "random" : "asha"; }
};

/// Returns the search that was asked for, of which nothing is made yet: its trials with their values and steps, and
/// what all of them have in common. `command` tells which flags were given. Opens the data. Throws InvalidArgument for
/// whatever is wrong with the space, the metric, or the flags of any trial.
tune::TuneState make_search(const CLI::App& command, const TuneFlags& flags);

}  // namespace trireme::cli
