#include "cli/flags/train_flags.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include <fmt/ranges.h>

#include "trireme/sampler.h"
#include "trireme/train_main.h"

#include "base/error.h"
#include "base/suggest.h"
#include "cli/flags/declare_flag.h"
#include "cli/flags/train_flag_table.h"
#include "cluster/strategy_choice.h"
#include "data/files/mirrors.h"
#include "net/address.h"
#include "ps/consistency.h"

namespace trireme::cli {

void to_json(nlohmann::json& json, const TrainFlags& flags) {
  for_each_train_flag([&](const auto& flag) {
    if (flag.for_workers()) json[flag.key()] = flags.*flag.member;
  });
}

void from_json(const nlohmann::json& json, TrainFlags& flags) {
  for_each_train_flag([&](const auto& flag) {
    if (flag.for_workers()) json.at(flag.key()).get_to(flags.*flag.member);
  });
}

void declare(CLI::App& command, TrainFlags& flags) {
  for_each_train_flag(
      [&](const auto& flag) { declare_flag(command, flag, flags)->configurable(!flag.traits.of_one_launch); });
}

void declare_shared(CLI::App& command, TrainFlags& flags, const std::vector<SharedFlag>& shared) {
  for (const SharedFlag& wanted : shared) {
    bool found = false;
    for_each_train_flag([&](auto flag) {
      if (flag.name() != wanted.name) return;
      found = true;
      flag.group = wanted.group;
      if (!wanted.help.empty()) flag.help = wanted.help;
      flag.show_default = wanted.show_default.value_or(flag.show_default);
      declare_flag(command, flag, flags)->configurable(!flag.traits.of_one_launch);
    });
    TRIREME_CHECK(found, "no flag of a training is called {}", wanted.name);
  }
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

void settle_workers(TrainFlags& flags) {
  const WorkerRange range = parse_workers(flags.worker_range);
  flags.workers = range.start;
  flags.min_workers = range.least;
  flags.min_start = range.range_given ? range.least : 0;
}

void settle(CLI::App& command, TrainFlags& flags) {
  settle_pipeline(command, flags);
  if (!flags.mesh.empty()) {
    const cluster::MeshChoice mesh = cluster::parse_mesh(flags.mesh);
    set_unless_given(command, "--workers", flags.worker_range,
                     std::to_string(std::uint64_t{std::max(1u, mesh.data)} * mesh.pipe * mesh.tensor));
  }
  settle_workers(flags);
  for_each_train_flag([&](const auto& flag) {
    if (flag.traits.unless_given == nullptr) return;
    set_unless_given(command, flag.name(), flags.*flag.member, flag.traits.unless_given(flags));
  });
}

bool is_ps(const TrainFlags& flags) {
  return cluster::parse_strategy(flags.strategy).kind == cluster::StrategyChoice::Kind::kParameterServer;
}

bool uses_servers(const TrainFlags& flags) { return cluster::parse_strategy(flags.strategy).uses_servers(); }

namespace {

bool is_zero_3(const cluster::StrategyChoice& strategy) {
  return strategy.kind == cluster::StrategyChoice::Kind::kZero && strategy.zero.stage == 3;
}

/// What is only for models that are divided, and what does not go with it.
void check_mesh(const TrainFlags& flags, const cluster::MeshChoice& mesh) {
  if (mesh.pipe == 1 && (!flags.stages.empty() || flags.recompute)) {
    fail<InvalidArgument>("--stages and --recompute are for a pipeline: give --mesh pipe=2 or more");
  }
  if (!mesh.divides_model()) return;
  const auto kind = cluster::parse_strategy(flags.strategy).kind;
  if (kind != cluster::StrategyChoice::Kind::kAllReduce && kind != cluster::StrategyChoice::Kind::kZero) {
    fail<InvalidArgument>("--mesh {}: a model is divided with --strategy allreduce or zero:1, zero:2, not {}",
                          flags.mesh, flags.strategy);
  }
  if (is_zero_3(cluster::parse_strategy(flags.strategy))) {
    fail<InvalidArgument>("--mesh {}: not with zero:3, which divides the parameters in another way; use zero:2",
                          flags.mesh);
  }
  if (flags.device != "cpu" && mesh.tensor > 1) {
    fail<InvalidArgument>("--mesh {}: matrices are divided on the CPU only; on a GPU use pipe, or zero:2", flags.mesh);
  }
  if (mesh.pipe > 1 && flags.accumulate > 1) {
    fail<InvalidArgument>("--accumulate {}: the lanes of a pipeline are its micro-batches; give more --lanes instead",
                          flags.accumulate);
  }
  if (mesh.pipe > 1 && (!flags.loss_scale.empty() || flags.precision == "fp16")) {
    fail<InvalidArgument>("--mesh {}: stages of a pipeline do not scale losses; use --precision bf16 or fp32",
                          flags.mesh);
  }
  if (!flags.init.empty()) {
    fail<InvalidArgument>(
        "--init {} with --mesh {}: train a step from it without the mesh, and continue that run with it (trireme "
        "resume "
        "RUN --mesh ...)",
        flags.init, flags.mesh);
  }
}

/// What looks at all parameters, where no worker has them while it trains.
void check_readers(const TrainFlags& flags, const cluster::MeshChoice& mesh) {
  const auto strategy = cluster::parse_strategy(flags.strategy);
  const bool zero_3 = is_zero_3(strategy);
  const char* const by = zero_3 ? "--strategy zero:3" : "a model that is divided";
  if (flags.histograms > 0 && (zero_3 || mesh.divides_model())) {
    fail<InvalidArgument>(
        "--histograms {}: with {} no worker has all parameters while it trains; leave the histograms out, or use "
        "allreduce or zero:2 without --mesh",
        flags.histograms, by);
  }
  if (!flags.prune.empty() && (zero_3 || mesh.tensor > 1)) {
    fail<InvalidArgument>(
        "--prune {}: with {} no worker sees which parameters of a matrix are the smallest; use allreduce or zero:2, "
        "and --mesh without tensor",
        flags.prune, by);
  }
}

void check_strategy(const TrainFlags& flags) {
  const auto strategy = cluster::parse_strategy(flags.strategy);
  if (is_zero_3(strategy) && flags.device != "cpu") {
    fail<InvalidArgument>("--strategy {} --device {}: parameters are divided on the CPU only; on a GPU use zero:2",
                          flags.strategy, flags.device);
  }
  if (is_ps(flags)) {
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
    parse_replicas(flags.replicas, flags.servers);
  } else if (flags.servers > 0) {
    fail<InvalidArgument>("--servers {}: --strategy {} does not use servers", flags.servers, flags.strategy);
  }
  if (flags.offload && !strategy.uses_servers()) {
    fail<InvalidArgument>(
        "--offload: the optimizer's state lives on servers with --strategy ps; {} keeps it on workers (zero:1 divides "
        "it among them)",
        flags.strategy);
  }
}

}  // namespace

void check_device(const std::string& flag, const std::string& value) {
  if (value == "cpu" || value == "cuda") return;
  constexpr std::string_view kOne = "cuda:";
  const std::string index = value.starts_with(kOne) ? value.substr(kOne.size()) : "";
  constexpr std::size_t kDigits = 3;  // LibTorch counts GPUs in eight bits
  if (!index.empty() && index.size() <= kDigits && index.find_first_not_of("0123456789") == std::string::npos) return;
  const std::string meant = value == "gpu" ? "cuda" : value;
  fail<InvalidArgument>("{} {}{}: use cpu, cuda (workers take turns with the GPUs), or one GPU, such as cuda:1", flag,
                        value, did_you_mean(meant, {"cpu", "cuda"}));
}

void check_each(const TrainFlags& flags) {
  for_each_train_flag([&](const auto& flag) {
    if (flag.traits.check != nullptr) flag.traits.check(flag.name(), flags.*flag.member);
  });
}

void check_for_worker(const CLI::App& command) {
  for_each_train_flag([&](const auto& flag) {
    if (flag.for_workers() || command.get_option(flag.name())->count() == 0) return;
    fail<InvalidArgument>(
        "{}: this program is a worker of a job that was started already; give this flag to the "
        "launcher, such as 'trireme run {} ...'",
        flag.name(), flag.name());
  });
}

/// With backup workers or a codec no two places know the same gradient.
void check_loss_scale(const TrainFlags& flags) {
  if (flags.loss_scale.empty() || !optim::parse_loss_scale(flags.loss_scale).dynamic) return;
  if (flags.backup_workers > 0) {
    fail<InvalidArgument>(
        "--loss-scale {} with --backup-workers {}: which workers are late differs between servers, so a step has no "
        "one gradient to leave out; use a fixed --loss-scale, or no backup workers",
        flags.loss_scale, flags.backup_workers);
  }
  if (codec::parse_spec(flags.codec).kind != codec::Kind::kNone) {
    fail<InvalidArgument>(
        "--loss-scale {} with --codec {}: a gradient that is not finite cannot be encoded; use a fixed --loss-scale, "
        "or no codec",
        flags.loss_scale, flags.codec);
  }
}

void check(const TrainFlags& flags) {
  check_each(flags);
  if (flags.epochs == 0 && flags.steps == 0)
    fail<InvalidArgument>("--epochs 0: nothing to do; give --epochs or --steps");
  const cluster::MeshChoice mesh = mesh_of(flags);
  const std::uint32_t data = cluster::data_workers(mesh, flags.workers);
  const std::uint32_t lanes = flags.lanes == 0 ? usual_lanes(flags) : flags.lanes;
  if (lanes < data) {
    fail<InvalidArgument>(
        "--lanes {} for {} workers: each worker needs at least one lane; use fewer workers, or more lanes in a new run",
        lanes, data);
  }
  check_mesh(flags, mesh);
  check_readers(flags, mesh);
  check_strategy(flags);
  if (const Slow slow = parse_slow(flags.slow); !flags.slow.empty() && slow.worker >= flags.workers) {
    fail<InvalidArgument>("--slow {}: the workers are 0 to {}", flags.slow, flags.workers - 1);
  }
  if (net::parse_transport(flags.transport) == net::Transport::kShm && !flags.throttle.empty()) {
    fail<InvalidArgument>("--throttle {}: shared memory cannot be throttled; leave --transport shm out",
                          flags.throttle);
  }
  if (flags.clip_norm > 0 && flags.backup_workers > 0) {
    fail<InvalidArgument>(
        "--clip-norm {} with --backup-workers {}: which workers are late differs between servers, so a step has no one "
        "gradient to clip; use --clip-value, or no backup workers",
        flags.clip_norm, flags.backup_workers);
  }
  if (flags.precision == "fp16" && flags.device == "cpu") {
    fail<InvalidArgument>(
        "--precision fp16 --device cpu: CPUs have no products of fp16 matrices; use --precision bf16, or --device "
        "cuda");
  }
  check_loss_scale(flags);
  const auto kind = cluster::parse_strategy(flags.strategy).kind;
  if (!flags.prune.empty() && cluster::parse_strategy(flags.strategy).local_sgd.elastic > 0) {
    fail<InvalidArgument>(
        "--prune {}: with elastic averaging each worker would prune other parameters; leave elastic out", flags.prune);
  }
  const bool encodes = codec::parse_spec(flags.codec).kind != codec::Kind::kNone;
  if (encodes && kind == cluster::StrategyChoice::Kind::kLocalSgd) {
    fail<InvalidArgument>("--codec {}: local-sgd exchanges parameters, not gradients; use allreduce or ps",
                          flags.codec);
  }
  if (encodes && kind == cluster::StrategyChoice::Kind::kZero) {
    fail<InvalidArgument>("--codec {}: zero sends gradients as they are; use allreduce or ps", flags.codec);
  }
}

std::set<std::string> flags_of_one_strategy() {
  std::set<std::string> keys;
  for_each_train_flag([&](const auto& flag) {
    if (flag.traits.of_one_strategy) keys.insert(flag.key());
  });
  return keys;
}

std::set<std::string> flags_of_one_launch() {
  std::set<std::string> keys;
  for_each_train_flag([&](const auto& flag) {
    if (flag.traits.of_one_launch) keys.insert(flag.key());
  });
  return keys;
}

void check_continues(const CLI::App& command, const TrainFlags& flags, const TrainFlags& before) {
  for_each_train_flag([&](const auto& flag) {
    const CLI::Option* const option = command.get_option_no_throw(flag.name());
    if (!flag.traits.of_checkpoints || option == nullptr || option->count() == 0) return;
    if (flags.*flag.member == before.*flag.member) return;
    const std::string with = fmt::format("{}", before.*flag.member);
    fail<InvalidArgument>(
        "{} {}: the run was trained {}, and its checkpoints fit nothing else; leave the flag out, or start a run of "
        "its "
        "own",
        flag.name(), flags.*flag.member, with.empty() ? "without it" : "with " + with);
  });
}

std::string given_as_json(const CLI::App& command, const TrainFlags& flags, const std::vector<SharedFlag>& names) {
  nlohmann::json given = nlohmann::json::object();
  for_each_train_flag([&](const auto& flag) {
    const auto named = [&](const SharedFlag& one) { return one.name == flag.name(); };
    if (std::ranges::none_of(names, named) || command.get_option(flag.name())->count() == 0) return;
    if (nlohmann::json value = flags.*flag.member; value != nlohmann::json(false)) given[flag.key()] = std::move(value);
  });
  return given.empty() ? "" : given.dump();
}

launch::JobSpec to_job(const TrainFlags& flags) {
  launch::JobSpec job;
  for_each_train_flag([&](const auto& flag) {
    if (flag.traits.set_job != nullptr) flag.traits.set_job(job, flags);
  });
  return job;
}

namespace {

/// Returns the folders that the flags name; nullopt if they name none.
std::optional<data::Mirrors> data_folders(const TrainFlags& flags) {
  if (flags.data_dir.empty()) return std::nullopt;
  try {
    return data::Mirrors::parse(flags.data_dir);
  } catch (const InvalidArgument& problem) {
    fail<InvalidArgument>("--data-dir {}", problem.what());
  }
}

}  // namespace

std::vector<std::string> parse_list(const std::string& text) {
  std::vector<std::string> words;
  for (std::string_view left = text; !left.empty();) {
    const std::string_view word = left.substr(0, left.find(','));
    if (!word.empty()) words.emplace_back(word);
    left.remove_prefix(std::min(left.size(), word.size() + 1));
  }
  return words;
}

std::map<std::string, data::ColumnKind> parse_types(const std::string& text) {
  using data::ColumnKind;
  constexpr std::array kKinds{ColumnKind::kNumber, ColumnKind::kDate, ColumnKind::kCategory, ColumnKind::kIgnored};
  std::map<std::string, ColumnKind> types;
  for (const std::string& word : parse_list(text)) {
    const std::size_t equals = word.rfind('=');
    const std::string given = equals == std::string::npos ? "" : word.substr(equals + 1);
    const auto* const kind = std::ranges::find(kKinds, given, [](ColumnKind one) { return data::name_of(one); });
    if (kind == kKinds.end() || equals == 0) {
      fail<InvalidArgument>("--types {}{}: expected NAME=number, date, category or ignore", word,
                            did_you_mean(given, {"number", "date", "category", "ignore"}));
    }
    types[word.substr(0, equals)] = *kind;
  }
  return types;
}

std::map<std::string, std::vector<std::int64_t>> parse_shapes(const std::string& text) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const std::string& word : parse_list(text)) {
    const std::size_t equals = word.rfind('=');
    std::vector<std::int64_t> shape;
    const char* at = word.data() + (equals == std::string::npos ? word.size() : equals + 1);
    const char* const end = word.data() + word.size();
    while (at < end) {
      std::int64_t extent = 0;
      const auto [stopped, problem] = std::from_chars(at, end, extent);
      if (problem != std::errc() || extent < 1 || (stopped < end && *stopped != 'x')) break;
      shape.push_back(extent);
      at = stopped == end ? end : stopped + 1;
    }
    if (at != end || shape.empty() || equals == 0 || word.ends_with('x')) {
      fail<InvalidArgument>("--shape {}: expected NAME=extents, such as image=3x32x32", word);
    }
    shapes[word.substr(0, equals)] = std::move(shape);
  }
  return shapes;
}

data::ImageSize parse_image_size(const std::string& text) {
  if (text.empty()) return {};
  data::ImageSize size;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%ldx%ld%c", &size.height, &size.width, &rest) != 2 || size.height < 1 ||
      size.width < 1 || size.height > 65535 || size.width > 65535) {
    fail<InvalidArgument>("--image-size {}: expected rows x columns, such as 32x32", text);
  }
  return size;
}

data::OpenOptions open_options(const TrainFlags& flags) {
  return {.test = flags.test_data,
          .folders = data_folders(flags),
          .targets = parse_list(flags.target),
          .ignore = parse_list(flags.ignore),
          .types = parse_types(flags.types),
          .length = flags.length,
          .classes = flags.classes,
          .shapes = parse_shapes(flags.shape),
          .image_size = parse_image_size(flags.image_size),
          .augment = flags.augment,
          .seed = flags.seed};
}

data::Opened load_data(const TrainFlags& flags) {
  if (const auto load = own_data(flags.data)) return {.split = load()};
  const data::OpenOptions options = open_options(flags);
  if (options.folders && std::filesystem::path(flags.data).is_absolute()) {
    fail<InvalidArgument>(
        "--data {} is in no folder of --data-dir {}: give its name in these folders, or leave --data-dir out",
        flags.data, flags.data_dir);
  }
  try {
    return data::open(flags.data, options);
  } catch (const InvalidArgument& problem) {
    const std::string meant = did_you_mean(flags.data, data_names());  // data::open knows only its own names
    if (meant.empty()) throw;
    fail<InvalidArgument>("there is no data set '{}'{}", flags.data, meant);
  }
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
