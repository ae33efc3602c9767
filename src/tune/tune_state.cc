#include "tune/tune_state.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"

namespace trireme::tune {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;

json to_object(const Trial& trial) {
  json values = json::array();
  for (const auto& [flag, value] : trial.values) values.push_back({flag, value});
  return {{"values", values}, {"steps", trial.steps}, {"schedule", trial.schedule}};
}

Trial trial_in(const json& object) {
  Trial trial{.steps = object.at("steps").get<std::vector<Step>>(), .schedule = object.at("schedule")};
  for (const json& pair : object.at("values")) trial.values.emplace_back(pair.at(0), pair.at(1));
  return trial;
}

json to_object(const TrialResult& result) {
  json object{{"trial", result.what.trial},
              {"rung", result.what.rung},
              {"steps", result.steps},
              {"value", nullptr},
              {"seconds", result.seconds}};
  if (result.value) object["value"] = *result.value;
  if (!result.failure.empty()) object["failure"] = result.failure;
  return object;
}

TrialResult result_in(const json& object) {
  TrialResult result{.what = {.trial = object.at("trial"), .rung = object.at("rung")},
                     .steps = object.at("steps"),
                     .seconds = object.at("seconds"),
                     .failure = object.value("failure", "")};
  if (!object.at("value").is_null()) result.value = object.at("value").get<double>();
  return result;
}

TuneState state_in(const json& object) {
  if (object.at("version") != kVersion) fail<Corrupt>("it is of another version");
  TuneState state{.method = object.at("method"),
                  .metric = object.at("metric"),
                  .more_is_better = object.at("more_is_better"),
                  .seed = object.at("seed"),
                  .asha = {.trials = object.at("trials").size(),
                           .slots = object.at("parallel"),
                           .eta = object.at("eta"),
                           .rungs = object.at("rungs").get<std::vector<double>>()},
                  .words = object.at("words").get<std::vector<std::string>>(),
                  .length = object.at("length").get<std::vector<std::string>>(),
                  .workers = object.at("workers"),
                  .lanes = object.at("lanes")};
  for (const json& trial : object.at("trials")) {
    state.trials.push_back(trial_in(trial));
    if (state.trials.back().steps.size() != state.asha.rungs.size()) fail<Corrupt>("a trial has other rungs");
  }
  for (const json& result : object.at("results")) {
    state.results.push_back(result_in(result));
    const RungOfTrial what = state.results.back().what;
    if (what.trial >= state.trials.size() || what.rung >= state.asha.rungs.size()) {
      fail<Corrupt>("a result is of trial {}, rung {}, which is not there", what.trial, what.rung);
    }
  }
  return state;
}

}  // namespace

Scores TuneState::scores() const {
  Scores all;
  for (const TrialResult& result : results) {
    all[result.what] = result.value ? std::optional(more_is_better ? *result.value : -*result.value) : std::nullopt;
  }
  return all;
}

const TrialResult* TuneState::last_result(std::size_t trial) const {
  const TrialResult* last = nullptr;
  for (const TrialResult& result : results) {
    if (result.what.trial == trial && (last == nullptr || result.what.rung > last->what.rung)) last = &result;
  }
  return last;
}

std::optional<std::size_t> TuneState::best() const {
  const TrialResult* best = nullptr;
  for (std::size_t trial = 0; trial < trials.size(); ++trial) {
    const TrialResult* const last = last_result(trial);
    if (last == nullptr || !last->value) continue;
    const bool better = best != nullptr && (more_is_better ? *last->value > *best->value : *last->value < *best->value);
    const bool longer = best != nullptr && *last->value == *best->value && last->steps > best->steps;
    if (best == nullptr || better || longer) best = last;
  }
  return best == nullptr ? std::nullopt : std::optional(best->what.trial);
}

Step TuneState::steps_made() const {
  Step steps = 0;
  for (std::size_t trial = 0; trial < trials.size(); ++trial) {
    if (const TrialResult* const last = last_result(trial)) steps += last->steps;
  }
  return steps;
}

void TuneState::save(const std::filesystem::path& folder) const {
  json object{{"version", kVersion},
              {"method", method},
              {"metric", metric},
              {"more_is_better", more_is_better},
              {"seed", seed},
              {"parallel", asha.slots},
              {"eta", asha.eta},
              {"rungs", asha.rungs},
              {"words", words},
              {"length", length},
              {"workers", workers},
              {"lanes", lanes},
              {"trials", json::array()},
              {"results", json::array()}};
  for (const Trial& trial : trials) object["trials"].push_back(to_object(trial));
  for (const TrialResult& result : results) object["results"].push_back(to_object(result));
  write_file_atomically(file(folder), as_bytes(object.dump(1) + "\n"));
}

TuneState TuneState::load(const std::filesystem::path& folder) {
  const std::filesystem::path path = file(folder);
  if (!std::filesystem::exists(path)) {
    fail<InvalidArgument>("{} holds no search of 'trireme tune': there is no tune.json", folder.string());
  }
  try {
    return state_in(json::parse(read_file(path)));
  } catch (const json::exception& problem) {
    fail<Corrupt>("{} cannot be understood: {}", path.string(), problem.what());
  } catch (const Corrupt& problem) {
    fail<Corrupt>("{} cannot be understood: {}", path.string(), problem.what());
  }
}

}  // namespace trireme::tune
