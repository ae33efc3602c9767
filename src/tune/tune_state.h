#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trireme/types.h"

#include "tune/asha.h"
#include "tune/space.h"

namespace trireme::tune {

/// One set of values that is tried.
struct Trial {
  Values values = {};
  std::vector<Step> steps = {};  ///< made at each rung, counted from the beginning
  std::string schedule = {};     ///< of the learning rate over the whole training, also where it ends early
};

/// What one trial achieved up to one rung.
struct TrialResult {
  RungOfTrial what = {};
  Step steps = 0;
  std::optional<double> value = {};  ///< of the metric; nullopt = it failed
  double seconds = 0;                ///< of training since the beginning
  std::string failure = {};          ///< why; empty if it did not
};

/// A search: what was asked for, and what is known. All of it is in a file, so that another process can go on with it.
struct TuneState {
  std::string method = "asha";      ///< asha, random or grid
  std::string metric = "accuracy";  ///< of the test set
  bool more_is_better = true;
  std::uint64_t seed = 1;                ///< decided the values
  AshaOptions asha = {};                 ///< with one rung unless the method is asha
  std::vector<std::string> words = {};   ///< flags of `trireme train` that all trials have at each start
  std::vector<std::string> length = {};  ///< those of a whole training that a start replaces: --steps, --schedule, …
  std::uint32_t workers = 1;             ///< of each trial
  std::uint32_t lanes = 1;               ///< of the trial that has the fewest: how many workers each can use
  std::vector<Trial> trials = {};
  std::vector<TrialResult> results = {};  ///< in the order in which they came

  /// Returns them for decide_asha.
  Scores scores() const;

  /// Returns the result of a trial at its highest rung; null if it has none.
  const TrialResult* last_result(std::size_t trial) const;

  /// Returns the trial whose metric is the best; nullopt if none has one. Among equals, the one with more steps.
  std::optional<std::size_t> best() const;

  /// Returns how many steps all trials made.
  Step steps_made() const;

  /// Writes `tune.json` in `folder`, in place of the one that is there. Throws IoError.
  void save(const std::filesystem::path& folder) const;

  /// Reads it. Throws InvalidArgument if the folder has none, Corrupt if it cannot be understood.
  static TuneState load(const std::filesystem::path& folder);

  static std::filesystem::path file(const std::filesystem::path& folder) { return folder / "tune.json"; }
};

}  // namespace trireme::tune
