#include "tune/tune_run.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include <fmt/format.h>

#include "trireme/deadline.h"
#include "trireme/metrics.h"

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "launch/companion.h"
#include "launch/job/log_tail.h"
#include "launch/job/running_job.h"
#include "launch/signal_watcher.h"
#include "launch/supervisor.h"
#include "observe/progress.h"
#include "observe/run_folder.h"

namespace trireme::tune {
namespace {

constexpr std::uint32_t kTries = 3;  // of a trial that ends with an error
constexpr int kWrongFlags = 2;       // exit status of a training whose flags are wrong
constexpr auto kLookAgain = 500ms;   // for folders that are still held, and workers to move
constexpr auto kHeldAtMost = 60s;    // by the processes of a search that was killed
constexpr auto kGrace = 60s;         // to finish a step and save a checkpoint

class TuneRun {
 public:
  TuneRun(TuneState& state, const TuneRunOptions& options) : state_(state), options_(options) {
    std::filesystem::create_directories(options.folder / "trials");
  }

  TuneEnd run() {
    launch::SignalWatcher signals;
    for (;;) {
      const AshaDecision decision = decide_asha(state_.asha, state_.scores());
      announce(decision);
      if (decision.finished) return {};
      if (begin_missing(decision)) continue;  // some had their result already
      share_workers();
      show();
      for (const launch::Exit& exit : supervisor_.wait(Deadline::in(kLookAgain), signals.descriptor())) take(exit);
      if (signals.take() != launch::StopRequest::kNone) return stop(signals);
    }
  }

 private:
  struct Training {
    RungOfTrial what = {};
    std::uint32_t workers = 0;  // it was told to have
  };

  Step steps_of(RungOfTrial what) const { return state_.trials[what.trial].steps[what.rung]; }
  std::filesystem::path folder_of(std::size_t trial) const { return folder_of_trial(options_.folder, trial); }
  std::filesystem::path log_of(std::size_t trial) const { return folder_of(trial).string() + ".log"; }

  void say(const std::string& line) {
    if (!options_.say) return;
    if (line_) line_->clear();
    options_.say(line);
  }

  void announce(const AshaDecision& decision) {
    for (; announced_ < decision.made.size(); ++announced_) {
      const TrialStep& made = decision.made[announced_];
      if (state_.scores().contains(made.what)) continue;  // of an earlier launch
      std::string values;
      for (const auto& [flag, value] : state_.trials[made.what.trial].values)
        values += fmt::format(" {} {}", flag, value);
      say(fmt::format("trial {}:{} to step {}; {}", made.what.trial, values, steps_of(made.what), made.reason));
    }
  }

  /// Begins what is decided and not under way. Returns true if a result was there already.
  bool begin_missing(const AshaDecision& decision) {
    bool found = false;
    for (const TrialStep& next : decision.now) {
      if (trainings_.contains(next.what.trial)) continue;
      if (const auto result = result_in_folder(next.what)) {
        record(*result);
        found = true;
      } else if (!held(next.what.trial)) {
        start(next.what, share_of(decision.now.size()));
      }
    }
    return found;
  }

  /// Whether processes of a search that was killed have not ended yet. Throws IoError if they do not.
  bool held(std::size_t trial) {
    const std::filesystem::path folder = folder_of(trial);
    if (!std::filesystem::is_directory(folder) || !observe::RunFolder::open(folder).held()) {
      held_.erase(trial);
      return false;
    }
    const auto [since, first] = held_.try_emplace(trial, Deadline::in(kHeldAtMost));
    if (since->second.passed()) {
      fail<IoError>("trial {} still runs in another process, which holds {}: end it, then trireme tune --resume {}",
                    trial, folder.string(), options_.folder.string());
    }
    return true;
  }

  /// The result that the run itself wrote, if it has made these steps.
  std::optional<TrialResult> result_in_folder(RungOfTrial what) const {
    const std::filesystem::path file = folder_of(what.trial) / "result.json";
    if (!std::filesystem::exists(file)) return std::nullopt;
    const auto json = nlohmann::json::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || json.value("steps", Step{0}) != steps_of(what)) return std::nullopt;
    TrialResult result{.what = what, .steps = steps_of(what), .seconds = json.value("seconds", 0.0)};
    const auto value = json.find("test_" + state_.metric);
    if (value != json.end() && value->is_number()) {
      result.value = value->get<double>();
    } else {
      result.failure = fmt::format("its {} is not a number", state_.metric);
    }
    return result;
  }

  void start(RungOfTrial what, std::uint32_t workers) {
    const std::filesystem::path folder = folder_of(what.trial);
    const Trial& trial = state_.trials[what.trial];
    const bool goes_on = std::filesystem::exists(folder / "config.toml");
    std::vector<std::string> argv{launch::companion_program("trireme"), goes_on ? "resume" : "train"};
    if (goes_on) {
      argv.push_back(folder.string());
    } else {
      argv.insert(argv.end(), state_.words.begin(), state_.words.end());
      for (const auto& [flag, value] : trial.values) {
        if (flag != "schedule") argv.insert(argv.end(), {"--" + flag, value});
      }
      argv.insert(argv.end(), {"--schedule", trial.schedule, "--out", folder.string(), "--overwrite"});
    }
    argv.insert(argv.end(), {"--steps", std::to_string(steps_of(what)), "--workers", std::to_string(workers), "--dash",
                             "off", "--json"});
    supervisor_.start(
        {.name = fmt::format("trial {}", what.trial), .argv = std::move(argv), .log = log_of(what.trial)});
    trainings_[what.trial] = {.what = what, .workers = workers};
  }

  void take(const launch::Exit& exit) {
    std::size_t trial = 0;
    const std::string number = exit.name.substr(exit.name.find(' ') + 1);
    std::from_chars(number.data(), number.data() + number.size(), trial);
    const RungOfTrial what = trainings_.at(trial).what;
    trainings_.erase(trial);
    if (const auto result = result_in_folder(what)) {
      tries_.erase(trial);
      return record(*result);
    }
    const std::string complaint = launch::last_complaint(log_of(trial), "trireme");
    if (++tries_[trial] < kTries && exit.status != kWrongFlags) {
      return say(fmt::format("trial {} {}; it goes on from its last checkpoint", trial, exit.how));
    }
    record({.what = what,
            .steps = steps_of(what),
            .failure = complaint.empty() ? fmt::format("{}; see {}", exit.how, log_of(trial).string()) : complaint});
  }

  void record(TrialResult result) {
    const std::string outcome = result.value ? describe({state_.metric, *result.value}) : "failed: " + result.failure;
    say(fmt::format("trial {}: {} after {} steps", result.what.trial, outcome, result.steps));
    state_.results.push_back(std::move(result));
    state_.save(options_.folder);
  }

  /// How many workers each of so many trials can have.
  std::uint32_t share_of(std::size_t trials) const {
    const std::size_t all = std::size_t{state_.workers} * state_.asha.slots;
    const auto share = static_cast<std::uint32_t>(all / std::max<std::size_t>(1, trials));
    return std::clamp(share, state_.workers, std::max(state_.workers, state_.lanes));
  }

  /// Gives the workers of trials that have ended to those that run, and takes them back.
  void share_workers() {
    const std::uint32_t share = share_of(trainings_.size());
    for (auto& [trial, training] : trainings_) {
      if (training.workers == share) continue;
      try {
        launch::RunningJob(folder_of(trial)).scale({.workers = share});
        training.workers = share;
        say(fmt::format("trial {}: {} from now on", trial, counted(share, "worker")));
      } catch (const Error&) {  // it has not begun yet, or just ended: the next look tells
      }
    }
  }

  void show() {
    if (options_.quiet) return;
    if (!line_) line_.emplace();
    std::set<std::size_t> begun;
    for (const TrialResult& result : state_.results) begun.insert(result.what.trial);
    const Step steps = state_.steps_made();
    const double took = seconds(Deadline::Clock::now() - began_);
    observe::Progress progress{
        .step = steps, .open_ended = true, .steps_per_s = static_cast<double>(steps - steps_before_) / took};
    if (const auto best = state_.best()) progress.averages["best " + state_.metric] = *state_.last_result(*best)->value;
    progress.note = fmt::format("{} of {} trials, {} at work", begun.size(), state_.trials.size(), trainings_.size());
    line_->update(progress);
  }

  TuneEnd stop(launch::SignalWatcher& signals) {
    supervisor_.stop(kGrace);
    while (supervisor_.alive() > 0) {
      for (const launch::Exit& exit : supervisor_.wait(Deadline::in(1s), signals.descriptor())) {
        say(exit.name + " was stopped");
      }
      if (signals.take() != launch::StopRequest::kNone) supervisor_.kill_now();
    }
    return {.signal = signals.signal()};
  }

  TuneState& state_;
  const TuneRunOptions& options_;
  launch::Supervisor supervisor_;
  std::map<std::size_t, Training> trainings_;   // by trial
  std::map<std::size_t, std::uint32_t> tries_;  // that ended with an error, since the last result
  std::map<std::size_t, Deadline> held_;        // until when to wait for a folder
  std::size_t announced_ = 0;                   // decisions
  const Deadline::Clock::time_point began_ = Deadline::Clock::now();
  const Step steps_before_ = state_.steps_made();  // by earlier launches
  std::optional<observe::ProgressLine> line_;
};

}  // namespace

TuneEnd run_trials(TuneState& state, const TuneRunOptions& options) { return TuneRun(state, options).run(); }

std::filesystem::path folder_of_trial(const std::filesystem::path& folder, std::size_t trial) {
  return folder / "trials" / fmt::format("{:03}", trial);
}

}  // namespace trireme::tune
