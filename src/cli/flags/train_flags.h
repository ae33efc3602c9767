#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "trireme/open.h"
#include "trireme/strategy.h"

namespace trireme::launch {
struct JobSpec;
}

namespace trireme::cli {

/// What `trireme train` is asked to do. The launcher checks it before anything starts and hands it to the workers.
/// train_flag_table.h describes each flag.
struct TrainFlags {
  std::string model = "lenet";
  std::string init;         ///< a model to start from; see checkpoint::locate_model
  std::string init_prefix;  ///< of the names in there
  std::string task;
  std::string data = "fashion-mnist";
  std::string test_data;           ///< empty = what the data has for testing, or a tenth of it
  std::string target;              ///< fields or columns, with commas between them; see data::OpenOptions
  std::string ignore;              ///< likewise
  std::string types;               ///< "zip=category,day=date": see parse_types
  std::uint64_t length = 256;      ///< tokens that a language model sees
  std::int64_t classes = 0;        ///< of the target; 0 = found
  std::string shape;               ///< "image=3x32x32": see parse_shapes
  std::string image_size;          ///< "32x32"; empty = as they are
  std::string augment;             ///< "shift:4,mirror"
  std::string data_dir;            ///< "a", or "a,b": folders that hold the same files; see data::Mirrors
  std::string worker_range = "2";  ///< "4", or "2:8": at least 2, at most 8
  std::uint32_t workers = 2;       ///< parsed from it: how many at the start
  std::uint32_t min_workers = 1;   ///< the job waits while there are fewer
  std::uint32_t min_start = 0;     ///< it begins with fewer than all only if a range was given
  std::string replicas = "auto";   ///< replicas of the parameters, see parse_replicas
  std::uint32_t restarts = 3;
  double wait_for_workers = 600;
  std::uint64_t max_views = 0;
  std::uint32_t servers = 1;
  std::uint32_t servers_per_host = 0;  ///< where another launcher starts the job; 0 = `servers` counts
  std::string backend = "auto";        ///< of the collectives
  std::string hosts;                   ///< "a:4,b:4", to start it there over ssh; see parse_hosts
  std::string hostfile;                ///< the same in a file
  std::string discover;                ///< a script that prints them, asked again and again
  std::string strategy = "ps";
  std::string mesh;  ///< "data=2,pipe=2,tensor=1"; empty: the model is not divided
  std::string pipeline = "1f1b";
  std::string stages;  ///< "3,5,4"; empty: cut by cost
  bool recompute = false;
  std::uint32_t tensor_lanes = 0;
  std::string memory;  ///< "8gb" of each worker; empty: nobody checks
  bool offload = false;
  std::string consistency;  ///< of strategy ps; empty for the others
  std::string buffers = "average";
  std::uint32_t backup_workers = 0;
  bool damp_stale = false;
  std::uint64_t epochs = 1;
  std::uint64_t steps = 0;
  std::uint64_t batch = 64;
  std::uint32_t accumulate = 1;
  std::string optimizer = "adam";
  double lr = 1e-3;
  double momentum = 0.9;
  double l2 = 0;
  double ema = 0;
  std::string groups = {};  ///< see optim::parse_groups
  std::string prune = {};
  std::string precision = "fp32";
  std::string loss_scale = {};  ///< see optim::parse_loss_scale; empty = what fits the precision
  double label_smoothing = 0;
  double clip_norm = 0;
  double clip_value = 0;
  std::string schedule = "cosine";
  std::uint64_t warmup = 0;
  std::uint32_t lanes = 0;
  std::uint64_t seed = 1;
  std::string shard = "shuffled";  ///< see data::Sharding
  std::string device = "cpu";
  std::string cuda_graphs = "auto";
  bool deterministic = false;
  int threads = 0;
  std::string transport = "auto";
  std::string codec = "none";
  std::string throttle;
  std::uint32_t latency_ms = 0;
  bool trace_algorithms = false;
  bool timeline = false;
  std::uint64_t profile = 0;
  std::string checkpoint_every = "epoch";
  std::uint32_t keep_checkpoints = 3;
  std::string checkpoint_rate;
  double time_limit = 0;
  std::string stop_at;
  std::uint32_t early_stop = 0;
  std::uint64_t log_every = 10;
  std::uint64_t histograms = 0;
  std::string log_level;
  std::string dash = "127.0.0.1:0";
  std::string dash_cert;
  std::string metrics;
  std::string on_event;
  std::string slow;
  std::uint32_t step_ms = 0;
  bool balance = false;
  bool trace_steps = false;
  std::string out;
  bool overwrite = false;
  bool json = false;

  bool operator==(const TrainFlags&) const = default;
};

/// The flags that workers read, by their names; reading throws nlohmann::json::exception if one is missing.
void to_json(nlohmann::json& json, const TrainFlags& flags);
void from_json(const nlohmann::json& json, TrainFlags& flags);

/// Declares the flags on `command`; after parsing they are in `flags`.
void declare(CLI::App& command, TrainFlags& flags);

/// A flag of a training that another command has too.
struct SharedFlag {
  std::string name;                       ///< "--workers"
  std::string help = {};                  ///< empty = the same
  std::optional<bool> show_default = {};  ///< nullopt = as `trireme train` does
  std::string group = {};                 ///< its heading in the help
};

/// Declares some of the flags on `command`, in the order given.
void declare_shared(CLI::App& command, TrainFlags& flags, const std::vector<SharedFlag>& shared);

/// After parsing: takes `workers`, `min_workers` and `min_start` from `worker_range`. Throws InvalidArgument.
void settle_workers(TrainFlags& flags);

/// After parsing: does that, and fills in what was not given and depends on the strategy (servers, consistency,
/// buffers), also as the defaults of `command`, so that they appear in its configuration. Throws InvalidArgument if
/// there is no such strategy.
void settle(CLI::App& command, TrainFlags& flags);

/// Checks each flag by itself. Throws InvalidArgument that names the flag and what is allowed.
void check_each(const TrainFlags& flags);

/// Throws InvalidArgument if a flag was given to `command` that only a launcher can heed: this process is a worker of a
/// job that another one has started.
void check_for_worker(const CLI::App& command);

/// Also checks that the flags go together. Throws InvalidArgument.
void check(const TrainFlags& flags);

/// Returns the keys in config.toml of the flags that apply to one strategy only: a run that continues with another one
/// does not inherit them.
std::set<std::string> flags_of_one_strategy();

/// Returns those of the flags that concern one launch: no run that continues inherits them.
std::set<std::string> flags_of_one_launch();

/// Checks that a run which was trained as `before` says can continue with the flags that were given to `command`, now
/// in `flags`: its checkpoints fit no other data, network, batch or optimizer. Throws InvalidArgument that names the
/// flag.
void check_continues(const CLI::App& command, const TrainFlags& flags, const TrainFlags& before);

/// Returns those of the flags in `names` that were given to `command`, as JSON by their keys; empty if there is none.
std::string given_as_json(const CLI::App& command, const TrainFlags& flags, const std::vector<SharedFlag>& names);

/// Returns the job that the flags ask for, without its program. Throws InvalidArgument (--replicas).
launch::JobSpec to_job(const TrainFlags& flags);

/// Returns how the flags want data to be opened. Throws InvalidArgument that names the flag.
data::OpenOptions open_options(const TrainFlags& flags);

/// The data that the flags name, from the first of its folders that has each file sound. Throws InvalidArgument (no
/// such data, or flags that do not fit it), IoError or Corrupt (its files).
data::Opened load_data(const TrainFlags& flags);

/// "a,b" as a list; empty text is an empty one.
std::vector<std::string> parse_list(const std::string& text);

/// "zip=category,day=date,note=ignore". Throws InvalidArgument.
std::map<std::string, data::ColumnKind> parse_types(const std::string& text);

/// "image=3x32x32,mask=32x32". Throws InvalidArgument.
std::map<std::string, std::vector<std::int64_t>> parse_shapes(const std::string& text);

/// "32x32", rows x columns. Throws InvalidArgument.
data::ImageSize parse_image_size(const std::string& text);

/// "4" or "2:8". Throws InvalidArgument.
struct WorkerRange {
  std::uint32_t least = 1;   ///< the job waits while there are fewer
  std::uint32_t start = 1;   ///< how many processes are started
  bool range_given = false;  ///< then it may also begin with `least`
};
WorkerRange parse_workers(const std::string& text);

/// How many replicas "auto", "0" or "1" means with that many servers. Throws InvalidArgument if it takes more servers.
std::uint32_t parse_replicas(const std::string& text, std::uint32_t servers);

/// "epoch" or a number of steps, 0 = never. Throws InvalidArgument.
std::optional<std::uint64_t> parse_checkpoint_every(const std::string& text);

/// A straggler for experiments: "1:10" makes worker 1 ten times as slow.
struct Slow {
  std::uint32_t worker = 0;
  double factor = 1;
};
Slow parse_slow(const std::string& text);

/// Throws InvalidArgument if there is no such device.
void check_device(const std::string& flag, const std::string& value);

/// A schedule in a file becomes the flag's value: the run keeps it, and the file may go. Throws InvalidArgument.
void settle_pipeline(CLI::App& command, const TrainFlags& flags);

/// Returns how the model is divided. Throws InvalidArgument if --mesh or --pipeline cannot be read.
cluster::MeshChoice mesh_of(const TrainFlags& flags);

/// Returns how many lanes there are unless they are given.
std::uint32_t usual_lanes(const TrainFlags& flags);

/// Whether the strategy is ps, and whether it has servers. Throw InvalidArgument if there is no such strategy.
bool is_ps(const TrainFlags& flags);
bool uses_servers(const TrainFlags& flags);

}  // namespace trireme::cli
