#include "cli/tune/new_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/ranges.h>

#include "trireme/sampler.h"

#include "base/counted.h"
#include "base/error.h"
#include "base/suggest.h"
#include "base/threads.h"
#include "cli/flags/train_flag_table.h"
#include "cli/flags/train_words.h"
#include "cli/start/training.h"
#include "data/task_rules.h"

namespace trireme::cli {
namespace {

constexpr std::size_t kMostRungs = 4;

/// Why trials cannot differ in a flag; empty if they can.
template <class AnyFlag>
std::string why_not_in_space(const AnyFlag& flag) {
  const std::string name = flag.key();
  static const std::set<std::string> kData{"data", "data-dir", "test-data", "target",
                                           "task", "ignore",   "types",     "shape"};
  if (kData.contains(name)) return "trials on other data, or with another task, cannot be compared";
  if (name == "steps" || name == "epochs") return "all trials are as long: give --" + name + " itself";
  if (name == "workers") return "what is learned does not depend on it: give --workers itself";
  if (name == "stop-at" || name == "early-stop" || name == "checkpoint-every") return "trials end at their rungs";
  return flag.traits.of_one_launch ? "it concerns one launch, not what is trained" : "";
}

std::vector<tune::KnownFlag> known_flags() {
  std::vector<tune::KnownFlag> known;
  for_each_train_flag([&](const auto& flag) {
    using Value = std::remove_cvref_t<decltype(std::declval<TrainFlags>().*flag.member)>;
    constexpr bool kNumber = std::is_arithmetic_v<Value> && !std::is_same_v<Value, bool>;
    known.push_back({.name = flag.key(),
                     .whole = kNumber && std::is_integral_v<Value>,
                     .number = kNumber,
                     .refused = why_not_in_space(flag)});
  });
  return known;
}

bool given(const CLI::App& command, const std::string& name) { return command.get_option(name)->count() > 0; }

/// What only a single training, on hosts of its own choice, can have.
void check_given(const CLI::App& command, const tune::Space& space) {
  for (const char* name :
       {"--hosts", "--hostfile", "--discover", "--time-limit", "--stop-at", "--early-stop", "--mesh"}) {
    if (given(command, name))
      fail<InvalidArgument>("{}: not with 'trireme tune', whose trials run on this host, to the end of a rung", name);
  }
  for (const tune::Dimension& dimension : space.dimensions) {
    if (!given(command, "--" + dimension.flag)) continue;
    fail<InvalidArgument>("--{} is in the space: leave the flag out, or take it out of --space", dimension.flag);
  }
}

/// Those that were given, as words, but for `except`.
std::vector<std::string> given_words(const CLI::App& command, const std::set<std::string>& names, bool only) {
  std::vector<std::string> words;
  const std::set<std::string> of_one_launch = flags_of_one_launch();
  for_each_train_flag([&](const auto& flag) {
    const CLI::Option& option = *command.get_option(flag.name());
    if (option.count() == 0 || of_one_launch.contains(flag.key()) || names.contains(flag.key()) != only) return;
    const bool no_value = option.get_expected_max() == 0;
    words.push_back(no_value ? flag.name() + "=" + option.results().back() : flag.name());
    if (!no_value) words.push_back(option.results().back());
  });
  return words;
}

TrainFlags flags_of_trial(const tune::TuneState& state, const tune::Values& values) {
  std::vector<std::string> words = state.words;
  words.insert(words.end(), state.length.begin(), state.length.end());
  std::string set;
  for (const auto& [flag, value] : values) {
    words.insert(words.end(), {"--" + flag, value});
    set += fmt::format("{}{}={}", set.empty() ? "" : ",", flag, value);
  }
  try {
    return read_train_words(words);
  } catch (const InvalidArgument& problem) {
    fail<InvalidArgument>("a trial with {}: {}", set, problem.what());
  }
}

void check_metric(tune::TuneState& state, const TrainFlags& flags, const data::Schema& samples) {
  const std::string task = flags.task.empty() ? data::fitting_task(samples) : flags.task;
  const std::vector<std::string> metrics = data::ready_metrics(task);
  if (state.metric.empty()) state.metric = metrics.front();
  if (std::ranges::count(metrics, state.metric) == 0) {
    fail<InvalidArgument>("--metric {}{}: task {} has {}", state.metric, did_you_mean(state.metric, metrics), task,
                          fmt::join(metrics, ", "));
  }
  state.more_is_better = state.metric.ends_with("accuracy");
}

Step whole_steps(const TrainFlags& flags, std::uint64_t samples) {
  if (flags.steps > 0) return flags.steps;
  const data::Sampler sampler(
      {.samples = samples, .batch = flags.batch, .lanes = flags.lanes, .sharding = data::Sharding::parse(flags.shard)});
  return flags.epochs * sampler.steps_per_epoch();
}

/// Adds the trials, each with its steps at each rung. What is wrong with any of them shows now.
void add_trials(tune::TuneState& state, const std::vector<tune::Values>& all, std::uint32_t rungs) {
  std::map<std::string, std::uint64_t> samples;  // by model: opening the data takes a moment
  std::vector<Step> whole;
  for (const tune::Values& values : all) {
    const TrainFlags flags = flags_of_trial(state, values);
    if (!samples.contains(flags.model)) {
      const data::Opened opened = open_checked(flags, WorkerProgram{});
      check_metric(state, flags, opened.split.train->schema());
      samples[flags.model] = opened.split.train->size();
    }
    whole.push_back(whole_steps(flags, samples[flags.model]));
    const bool fades = flags.schedule == "cosine" || flags.schedule == "linear";
    const std::string schedule = fades ? fmt::format("{}:{}", flags.schedule, whole.back()) : flags.schedule;
    state.trials.push_back({.values = values, .schedule = schedule});
    state.lanes = std::max(state.trials.size() == 1 ? flags.lanes : std::min(state.lanes, flags.lanes), 1u);
  }
  state.asha.trials = all.size();
  if (state.method == "asha") {
    state.asha.rungs = tune::usual_rungs(all.size(), state.asha.eta, rungs > 0 ? rungs : kMostRungs);
    if (rungs > 0 && state.asha.rungs.size() < rungs) {
      fail<InvalidArgument>("--rungs {}: {} are enough to leave one of {}", rungs, state.asha.rungs.size(),
                            counted(all.size(), "trial"));
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const double share : state.asha.rungs) {
      const auto steps = static_cast<Step>(std::ceil(share * static_cast<double>(whole[i]) - 1e-9));
      auto& at = state.trials[i].steps;
      if (steps < 1 || (!at.empty() && steps <= at.back())) {
        fail<InvalidArgument>("{} rungs in {} steps are too many: give more --steps, or fewer --rungs",
                              state.asha.rungs.size(), whole[i]);
      }
      at.push_back(steps);
    }
  }
}

}  // namespace

tune::TuneState make_search(const CLI::App& command, const TuneFlags& flags) {
  const tune::Space space = tune::parse_space(flags.space, known_flags());
  check_given(command, space);
  if (flags.train.worker_range.find(':') != std::string::npos) {
    fail<InvalidArgument>(
        "--workers {}: give the number of each trial's workers; with more --lanes it gets those that "
        "other trials no longer need",
        flags.train.worker_range);
  }
  if (parse_checkpoint_every(flags.train.checkpoint_every) == 0) {
    fail<InvalidArgument>("--checkpoint-every 0: trials go on from their checkpoints; leave the flag out");
  }
  if (!flags.train.prune.empty() && flags.train.prune.find("to=") == std::string::npos) {
    fail<InvalidArgument>("--prune {}: say when pruning ends (to=), since trials end early", flags.train.prune);
  }
  tune::TuneState state{.method = flags.method(), .metric = flags.metric, .seed = flags.train.seed};
  const std::set<std::string> per_start{"workers", "steps", "schedule"};
  state.workers = given(command, "--workers") ? parse_workers(flags.train.worker_range).start : 1;
  if (state.workers == 0) fail<InvalidArgument>("--workers 0: at least one worker is needed");
  const std::uint32_t cores = available_cores();
  state.asha.slots = flags.parallel > 0 ? flags.parallel : std::max(1u, cores / state.workers);
  state.asha.eta = flags.eta;
  state.words = given_words(command, per_start, /*only=*/false);
  if (!given(command, "--threads")) {
    const auto all = static_cast<std::uint32_t>(state.asha.slots) * state.workers;
    state.words.insert(state.words.end(), {"--threads", std::to_string(std::max(1u, cores / all))});
  }
  state.length = {"--workers", std::to_string(state.workers)};
  for (const std::string& word : given_words(command, {"steps", "schedule"}, /*only=*/true))
    state.length.push_back(word);
  const bool all_of_grid = flags.grid && !given(command, "--trials") && space.size() > 0;
  const std::uint64_t most = all_of_grid ? space.size() : flags.trials;
  add_trials(state, flags.grid ? tune::grid(space, most) : tune::sample(space, most, state.seed), flags.rungs);
  decide_asha(state.asha, {});  // are its numbers sound?
  return state;
}

}  // namespace trireme::cli
