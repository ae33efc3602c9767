#include "cli/train_flags.h"

#include <charconv>
#include <cstdio>

#include "trireme/dataset.h"
#include "trireme/sampler.h"

#include "base/error.h"
#include "base/suggest.h"
#include "cluster/strategy_choice.h"
#include "codec/spec.h"
#include "data/mirrors.h"
#include "net/address.h"
#include "optim/update_config.h"
#include "ps/consistency.h"

namespace trireme::cli {

const std::vector<std::string>& known_models() {
  static const std::vector<std::string> names{"lenet", "mlp"};
  return names;
}

void declare(CLI::App& command, TrainFlags& flags) {
  const auto what = "What to train";
  command.add_option("--model", flags.model, "network: lenet or mlp")->capture_default_str()->group(what);
  command
      .add_option(
          "--data", flags.data,
          "fashion-mnist, synthetic, or a .csv file with the label in its last column; every tenth row is for testing")
      ->capture_default_str()
      ->group(what);
  command
      .add_option("--data-dir", flags.data_dir,
                  "folder of the data files, if not where Debian puts them; a,b: mirrors, in which a file that is "
                  "missing or damaged in one is read from the next")
      ->group(what);
  command.add_option("--epochs", flags.epochs, "how often each sample is seen")->capture_default_str()->group(what);
  command.add_option("--steps", flags.steps, "updates to make, instead of --epochs")->group(what);
  command.add_option("--batch", flags.batch, "samples per step, over all workers")->capture_default_str()->group(what);
  command
      .add_option("--accumulate", flags.accumulate,
                  "parts in which each lane is computed, one after the other: for batches that do not fit in memory")
      ->capture_default_str()
      ->group(what);
  command.add_option("--seed", flags.seed, "of all random numbers; the same seed gives the same run")
      ->capture_default_str()
      ->group(what);

  const auto who = "Who takes part";
  command
      .add_option("-w,--workers", flags.worker_range,
                  "processes that compute gradients; 2:8: at most 8, and the job waits while there are fewer than 2")
      ->capture_default_str()
      ->group(who);
  command
      .add_option("--restarts", flags.restarts,
                  "how often a process that dies is restarted before it is left alone for a minute; 0: never")
      ->capture_default_str()
      ->group(who);
  command.add_option("--wait-for-workers", flags.wait_for_workers, "seconds to wait for more when too few are left")
      ->capture_default_str()
      ->group(who);
  command
      .add_flag("--balance", flags.balance,
                "move lanes from slow workers to fast ones where that makes steps shorter; best with several lanes per "
                "worker (--lanes)")
      ->group(who);
  command.add_option("--max-views", flags.max_views, "give up after this many changes of membership; 0: never")
      ->capture_default_str()
      ->group(who);
  command
      .add_option("--strategy", flags.strategy,
                  "ps: parameters on servers; allreduce: gradients summed among the workers; local-sgd:16: parameters "
                  "averaged every 16 steps; central: one server, all in step")
      ->capture_default_str()
      ->group(who);
  command
      .add_option("-s,--servers", flags.servers,
                  "processes that hold the parameters: 1 unless given; none with allreduce and local-sgd")
      ->group(who);
  command
      .add_option("--replicas", flags.replicas,
                  "replicas of the parameters on other servers: 0, 1, or auto: 1 if there are two servers or more")
      ->check(CLI::IsMember({"auto", "0", "1"}))
      ->capture_default_str()
      ->group(who);
  command
      .add_option("--lanes", flags.lanes,
                  "slices of the batch, one per worker unless given; results depend on it, "
                  "not on the number of workers")
      ->group(who);
  command
      .add_option("--consistency", flags.consistency,
                  "of strategy ps: bsp (unless given): all workers in step; ssp:4: at most 4 steps apart; asp: "
                  "nobody waits")
      ->group(who);
  command.add_option("--backup-workers", flags.backup_workers, "bsp: do not wait for this many of the slowest workers")
      ->group(who);
  command.add_flag("--damp-stale", flags.damp_stale, "ssp, asp: divide a gradient by its staleness")->group(who);
  command.add_option("--device", flags.device, "cpu or cuda")->capture_default_str()->group(who);
  command.add_option("--threads", flags.threads, "of LibTorch in each worker; 0: (cores - 1) / lanes")
      ->capture_default_str()
      ->group(who);
  command.add_option("--transport", flags.transport, "auto, shm, tcp or tls")->capture_default_str()->group(who);

  command
      .add_option("--codec", flags.codec,
                  "how gradients travel: none, fp16, bf16, int8, 1bit, topk:0.01 or randomk:0.01; with error feedback")
      ->capture_default_str()
      ->group(who);
  command
      .add_flag("--trace-algorithms", flags.trace_algorithms,
                "log which collective algorithms are chosen, and why (logs/worker-0.log)")
      ->group(who);

  const auto how = "How it learns";
  command.add_option("--optimizer", flags.optimizer, "sgd, momentum, nesterov, adagrad, rmsprop, adam, adamw or ftrl")
      ->capture_default_str()
      ->group(how);
  command.add_option("--lr", flags.lr, "learning rate")->capture_default_str()->group(how);
  command.add_option("--momentum", flags.momentum, "of momentum and nesterov")->capture_default_str()->group(how);
  command.add_option("--l2", flags.l2, "weight decay")->capture_default_str()->group(how);
  command.add_option("--clip-norm", flags.clip_norm, "largest norm of a lane's gradient; 0: off")->group(how);
  command.add_option("--clip-value", flags.clip_value, "largest element of a gradient; 0: off")->group(how);
  command.add_option("--schedule", flags.schedule, "of the learning rate: cosine, linear, constant, step:10:0.1")
      ->capture_default_str()
      ->group(how);
  command
      .add_option(
          "--buffers", flags.buffers,
          "batch-norm statistics after a step: average: mean over lanes (unless given); broadcast: the chief's; "
          "own: each worker's (all that ps can do)")
      ->group(how);
  command.add_option("--warmup", flags.warmup, "steps over which the learning rate rises")->group(how);

  const auto end = "When it ends, what it writes";
  command.add_option("--time-limit", flags.time_limit, "stop after this many seconds")->group(end);
  command.add_option("--target-accuracy", flags.target_accuracy, "stop at this test accuracy, 0 to 1")->group(end);
  command.add_option("--early-stop", flags.early_stop, "stop after this many epochs without a better test loss")
      ->group(end);
  command.add_option("--out", flags.out, "run folder; runs/<time>-<model> unless given")->group(end);
  command.add_flag("--overwrite", flags.overwrite, "replace the run that is in --out")->group(end);
  command
      .add_option("--checkpoint-every", flags.checkpoint_every,
                  "steps, or epoch; 0: never. trireme resume continues from the last one")
      ->capture_default_str()
      ->group(end);
  command.add_option("--keep-checkpoints", flags.keep_checkpoints, "how many to keep, besides the best; 0: all")
      ->capture_default_str()
      ->group(end);
  command
      .add_option("--checkpoint-rate", flags.checkpoint_rate,
                  "largest write speed of each process, such as 800mbit; unlimited unless given")
      ->group(end);
  command.add_option("--log-every", flags.log_every, "steps per row of metrics")->capture_default_str()->group(end);
  command.add_flag("--json", flags.json, "print one line of JSON at the end, and nothing else, on standard output")
      ->group(end);
  command
      .add_flag("--timeline", flags.timeline,
                "write timeline-<worker>.json: what each worker did when, for ui.perfetto.dev")
      ->group(end);

  const auto experiments = "Experiments";
  command.add_option("--slow", flags.slow, "'1:10' makes worker 1 ten times as slow")->group(experiments);
  command.add_option("--step-ms", flags.step_ms, "minimum duration of a step, to simulate a larger model")
      ->group(experiments);
  command
      .add_flag("--trace-steps", flags.trace_steps,
                "write steps-<worker>-<pid>.log: when each step began and took effect")
      ->group(experiments);
  command.add_option("--throttle", flags.throttle, "limit links to this speed, such as 100mbit; over TCP")
      ->group(experiments);
  command
      .add_option("--latency-ms", flags.latency_ms,
                  "delay everything that workers send each other in the background by this much")
      ->group(experiments);
}

std::uint32_t parse_replicas(const std::string& text, std::uint32_t servers) {
  if (text == "auto") return servers > 1 ? 1 : 0;
  if (text == "1" && servers == 1) {
    fail<InvalidArgument>("--replicas 1 with one server: a replica has to be on another one; use --servers 2");
  }
  return text == "1" ? 1 : 0;
}

std::optional<std::uint64_t> parse_checkpoint_every(const std::string& text) {
  if (text == "epoch") return std::nullopt;
  std::uint64_t steps = 0;
  const auto [stopped, problem] = std::from_chars(text.data(), text.data() + text.size(), steps);
  if (problem == std::errc() && stopped == text.data() + text.size() && !text.empty()) return steps;
  fail<InvalidArgument>("--checkpoint-every {}: a number of steps, or epoch; 0: never", text);
}

WorkerRange parse_workers(const std::string& text) {
  const auto number = [&](std::string_view digits) {
    std::uint32_t value = 0;
    const auto [stopped, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (problem != std::errc() || stopped != digits.data() + digits.size() || digits.empty()) {
      fail<InvalidArgument>("--workers {}: a number, or the least and the most of them, such as 2:8", text);
    }
    return value;
  };
  const auto colon = text.find(':');
  if (colon == std::string::npos) return {.least = 1, .start = number(text)};
  const WorkerRange range{.least = number(std::string_view(text).substr(0, colon)),
                          .start = number(std::string_view(text).substr(colon + 1)),
                          .range_given = true};
  if (range.least == 0 || range.least > range.start) {
    fail<InvalidArgument>("--workers {}: the least is 1 or more, and not above the most", text);
  }
  return range;
}

void settle(CLI::App& command, TrainFlags& flags) {
  const WorkerRange range = parse_workers(flags.worker_range);
  flags.workers = range.start;
  flags.min_workers = range.least;
  flags.min_start = range.range_given ? range.least : 0;
  const auto strategy = cluster::parse_strategy(flags.strategy);
  const auto unless_given = [&](const char* name, auto& flag, const auto& value) {
    CLI::Option& option = *command.get_option(name);
    if (option.count() > 0) return;
    flag = value;
    option.default_str(fmt::format("{}", value));
  };
  const bool ps = strategy.kind == cluster::StrategyChoice::Kind::kParameterServer;
  unless_given("--lanes", flags.lanes, flags.workers);  // a resumed run has the same, with any number of workers
  unless_given("--servers", flags.servers, strategy.uses_servers() ? 1u : 0u);
  unless_given("--consistency", flags.consistency, std::string(ps ? "bsp" : ""));
  unless_given("--buffers", flags.buffers, std::string(strategy.uses_servers() ? "own" : "average"));
}

namespace {

void check_strategy(const TrainFlags& flags) {
  const auto strategy = cluster::parse_strategy(flags.strategy);
  const bool ps = strategy.kind == cluster::StrategyChoice::Kind::kParameterServer;
  if (ps) {
    auto consistency = ps::parse_consistency(flags.consistency);
    consistency.backup_workers = flags.backup_workers;
    consistency.damp_stale = flags.damp_stale;
    ps::validate(consistency, flags.workers);
  } else if (!flags.consistency.empty() || flags.backup_workers > 0 || flags.damp_stale) {
    fail<InvalidArgument>(
        "--consistency, --backup-workers and --damp-stale belong to --strategy ps: {} keeps all workers in step",
        flags.strategy);
  }
  if (strategy.uses_servers()) {
    if (flags.servers == 0) {
      fail<InvalidArgument>("--servers 0: --strategy {} needs a server for the parameters; allreduce needs none",
                            flags.strategy);
    }
    cluster::check_servers(strategy, flags.servers);
  } else if (flags.servers > 0) {
    fail<InvalidArgument>("--servers {}: --strategy {} does not use servers", flags.servers, flags.strategy);
  }
  const auto buffers = cluster::parse_buffers(flags.buffers);
  if (strategy.uses_servers() && buffers != cluster::BufferPolicy::kOwn) {
    fail<InvalidArgument>("--buffers {}: with --strategy {} each worker keeps its own; use allreduce", flags.buffers,
                          flags.strategy);
  }
}

}  // namespace

void check(const TrainFlags& flags) {
  const auto at_least_one = [](const char* flag, std::uint64_t value, const char* why) {
    if (value == 0) fail<InvalidArgument>("{} 0: {}", flag, why);
  };
  parse_checkpoint_every(flags.checkpoint_every);
  if (!flags.checkpoint_rate.empty()) net::parse_bit_rate(flags.checkpoint_rate);
  at_least_one("--workers", flags.workers, "at least one worker is needed");
  at_least_one("--batch", flags.batch, "a step needs at least one sample");
  at_least_one("--accumulate", flags.accumulate, "a lane has at least one part");
  at_least_one("--log-every", flags.log_every, "metrics need at least one step per row");
  if (flags.epochs == 0 && flags.steps == 0)
    fail<InvalidArgument>("--epochs 0: nothing to do; give --epochs or --steps");
  const std::uint32_t lanes = flags.lanes == 0 ? flags.workers : flags.lanes;
  if (lanes < flags.workers) {
    fail<InvalidArgument>("--lanes {} for {} workers: each worker needs at least one lane", lanes, flags.workers);
  }
  const auto& models = known_models();
  if (std::find(models.begin(), models.end(), flags.model) == models.end()) {
    fail<InvalidArgument>(
        "there is no model '{}'{}: use lenet or mlp, or write a program of your own (see "
        "examples/fashion_mnist.cc) and start it with 'trireme run'",
        flags.model, did_you_mean(flags.model, models));
  }
  if (flags.device != "cpu" && flags.device != "cuda" && !flags.device.starts_with("cuda:")) {
    fail<InvalidArgument>("--device {}{}: use cpu or cuda", flags.device, did_you_mean(flags.device, {"cpu", "cuda"}));
  }
  if (!(flags.lr > 0)) fail<InvalidArgument>("--lr {}: the learning rate must be above 0", flags.lr);
  optim::parse_rule(flags.optimizer);
  check_strategy(flags);
  if (net::parse_transport(flags.transport) == net::Transport::kShm && !flags.throttle.empty()) {
    fail<InvalidArgument>("--throttle {}: shared memory cannot be throttled; leave --transport shm out",
                          flags.throttle);
  }
  if (!flags.throttle.empty()) net::parse_bit_rate(flags.throttle);
  const auto codec = codec::parse_spec(flags.codec);
  const auto kind = cluster::parse_strategy(flags.strategy).kind;
  if (codec.kind != codec::Kind::kNone && kind == cluster::StrategyChoice::Kind::kLocalSgd) {
    fail<InvalidArgument>("--codec {}: local-sgd exchanges parameters, not gradients; use allreduce or ps",
                          flags.codec);
  }
  parse_slow(flags.slow);
}

namespace {

/// Every tenth sample is for testing; features are normalised by the mean and deviation of the others.
data::Split split_off_test(const std::shared_ptr<const data::Dataset>& whole) {
  std::vector<std::uint64_t> train;
  std::vector<std::uint64_t> test;
  for (std::uint64_t i = 0; i < whole->size(); ++i) (i % 10 == 9 ? test : train).push_back(i);
  if (test.empty()) fail<InvalidArgument>("{}: at least ten samples are needed", whole->describe());
  const auto training = std::make_shared<data::Subset>(whole, std::move(train));
  const auto scale = data::measure_features(*training);
  return {std::make_shared<data::Normalized>(training, scale),
          std::make_shared<data::Normalized>(std::make_shared<data::Subset>(whole, std::move(test)), scale)};
}

/// Returns the folders that the flags name; nullopt if they name none.
std::optional<data::Mirrors> data_folders(const TrainFlags& flags) {
  if (flags.data_dir.empty()) return std::nullopt;
  try {
    return data::Mirrors::parse(flags.data_dir);
  } catch (const InvalidArgument& problem) {
    fail<InvalidArgument>("--data-dir {}", problem.what());
  }
}

/// Returns the CSV file that the flags name: in the folders, if there are any.
data::Mirrors csv_files(const TrainFlags& flags, const std::optional<data::Mirrors>& folders) {
  const std::filesystem::path file = flags.data;
  if (!folders) return file;
  if (file.is_absolute()) {
    fail<InvalidArgument>(
        "--data {} is in no folder of --data-dir {}: give its name in these folders, or leave --data-dir out",
        flags.data, flags.data_dir);
  }
  return *folders / file;
}

}  // namespace

data::Split load_data(const TrainFlags& flags) {
  const std::optional<data::Mirrors> folders = data_folders(flags);
  if (flags.data == "synthetic") return data::make_synthetic({});
  if (flags.data == "fashion-mnist") return folders ? data::load_fashion_mnist(*folders) : data::load_fashion_mnist();
  if (flags.data.ends_with(".csv") || flags.data.ends_with(".csv.gz")) {
    return split_off_test(data::load_csv(csv_files(flags, folders), {}));
  }
  fail<InvalidArgument>("there is no data set '{}'{}: use fashion-mnist, synthetic, or the path of a .csv file",
                        flags.data, did_you_mean(flags.data, {"fashion-mnist", "synthetic"}));
}

Slow parse_slow(const std::string& text) {
  Slow slow;
  char rest = 0;
  if (text.empty()) return slow;
  if (std::sscanf(text.c_str(), "%u:%lf%c", &slow.worker, &slow.factor, &rest) != 2 || !(slow.factor >= 1)) {
    fail<InvalidArgument>("--slow {}: expected <worker>:<factor>, such as 1:10", text);
  }
  return slow;
}

}  // namespace trireme::cli
