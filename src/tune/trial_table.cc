#include "tune/trial_table.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "trireme/metrics.h"

#include "base/counted.h"
#include "dash/plot.h"
#include "observe/table.h"

namespace trireme::tune {
namespace {

constexpr std::size_t kNamedInPlot = 6;  // as many colours as a plot has

std::string describe_values(const Values& values) {
  std::string text;
  for (const auto& [flag, value] : values) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", flag, value);
  return text;
}

std::string ending_of(const TuneState& state, const TrialResult& last) {
  if (!last.failure.empty()) return "failed: " + last.failure;
  if (last.what.rung + 1 == state.asha.rungs.size()) return "trained fully";
  return fmt::format("ended at rung {}", last.what.rung);
}

std::string in_quotes(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+:,./@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace

std::vector<std::size_t> ranked_trials(const TuneState& state) {
  std::vector<const TrialResult*> last;
  for (std::size_t trial = 0; trial < state.trials.size(); ++trial) {
    if (const TrialResult* const result = state.last_result(trial)) last.push_back(result);
  }
  std::ranges::stable_sort(last, [&](const TrialResult* a, const TrialResult* b) {
    if (a->value.has_value() != b->value.has_value()) return a->value.has_value();
    if (a->value && *a->value != *b->value) return (*a->value > *b->value) == state.more_is_better;
    return a->steps > b->steps;
  });
  std::vector<std::size_t> trials;
  for (const TrialResult* const result : last) trials.push_back(result->what.trial);
  return trials;
}

std::string to_table(const TuneState& state) {
  observe::TableCells cells{{"place", "trial"}};
  std::vector<bool> numeric{true, true};
  const Values& heading = state.trials.front().values;
  for (const auto& [flag, value] : heading) cells[0].push_back(flag);
  cells[0].insert(cells[0].end(), {"steps", state.metric, "how it ended"});
  numeric.resize(2 + heading.size(), true);
  numeric.insert(numeric.end(), {true, true, false});
  for (const std::size_t trial : ranked_trials(state)) {
    const TrialResult& last = *state.last_result(trial);
    std::vector<std::string> row{std::to_string(cells.size()), std::to_string(trial)};
    for (const auto& [flag, value] : state.trials[trial].values) row.push_back(value);
    row.push_back(std::to_string(last.steps));
    row.push_back(last.value ? fmt::format("{:.6g}", *last.value) : "-");
    row.push_back(ending_of(state, last));
    cells.push_back(std::move(row));
  }
  return observe::aligned(std::move(cells), numeric);
}

std::string to_picture(const TuneState& state) {
  std::vector<dash::Series> series;
  for (const std::size_t trial : ranked_trials(state)) {
    dash::Series line;
    if (series.size() < kNamedInPlot) line.name = describe_values(state.trials[trial].values);
    for (std::size_t rung = 0; rung < state.asha.rungs.size(); ++rung) {
      const auto result = std::ranges::find(state.results, RungOfTrial{trial, rung}, &TrialResult::what);
      if (result == state.results.end()) continue;
      line.x.push_back(static_cast<double>(result->steps));
      line.y.push_back(result->value.value_or(std::numeric_limits<double>::quiet_NaN()));
    }
    series.push_back(std::move(line));
  }
  return dash::plot_svg(
      series, {.dots = true, .title = fmt::format("{} of {}", state.metric, counted(series.size(), "trial"))});
}

std::string command_of(const TuneState& state, std::size_t trial) {
  std::string text = "trireme train";
  for (const std::string& word : state.words) text += " " + in_quotes(word);
  for (const std::string& word : state.length) text += " " + in_quotes(word);
  for (const auto& [flag, value] : state.trials[trial].values) text += fmt::format(" --{} {}", flag, in_quotes(value));
  return text;
}

nlohmann::json to_object(const TuneState& state) {
  nlohmann::json object{{"method", state.method},
                        {"metric", state.metric},
                        {"steps", state.steps_made()},
                        {"trials", nlohmann::json::array()}};
  for (const std::size_t trial : ranked_trials(state)) {
    const TrialResult& last = *state.last_result(trial);
    nlohmann::json row{{"trial", trial}, {"steps", last.steps}, {"rung", last.what.rung}, {"value", nullptr}};
    for (const auto& [flag, value] : state.trials[trial].values) row["values"][flag] = value;
    if (last.value) row["value"] = *last.value;
    if (!last.failure.empty()) row["failure"] = last.failure;
    object["trials"].push_back(std::move(row));
  }
  if (const auto best = state.best()) {
    object["best"] = object["trials"].front();
    object["best"]["command"] = command_of(state, *best);
  }
  return object;
}

}  // namespace trireme::tune
