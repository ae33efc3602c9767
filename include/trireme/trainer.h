#pragma once

// Training on many processes: `Trainer::fit`. The same program runs alone and under `trireme run`.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>
#include <torch/nn/module.h>

#include "trireme/checkpoint.h"
#include "trireme/codec.h"
#include "trireme/dataset.h"
#include "trireme/job.h"
#include "trireme/loss_scale.h"
#include "trireme/metrics.h"
#include "trireme/model.h"
#include "trireme/optimizer.h"
#include "trireme/sampler.h"
#include "trireme/strategy.h"
#include "trireme/task.h"
#include "trireme/types.h"

namespace trireme {

/// What a strategy has moved on behalf of one worker.
struct Communication {
  std::uint64_t wire_bytes = 0;   ///< sent over the network, or read from other processes' memory
  std::uint64_t plain_bytes = 0;  ///< roughly what it would be if every step sent all gradients as floats
  double encode_seconds = 0;      ///< spent on encoding gradients
};

/// How many bytes one worker holds for the parameters of a model while it trains.
struct HeldBytes {
  std::uint64_t parameters = 0;
  std::uint64_t gradients = 0;
  std::uint64_t optimizer = 0;   ///< its state: moments, averages
  std::uint64_t in_transit = 0;  ///< what comes and goes: buckets that are being summed, layers that are gathered
};

/// How good a model is on all samples of a dataset.
struct Evaluation {
  double loss = 0;
  std::vector<NamedValue> metrics = {};  ///< of the task: accuracy, ...
  std::string set = "test";              ///< which dataset

  /// `loss`, or a metric of this name; NaN if there is none.
  double metric(std::string_view name) const { return name == "loss" ? loss : find_value(metrics, name); }
};

/// What training achieved.
struct TrainResult {
  std::optional<Evaluation> test = {};    ///< on the test set
  std::vector<Evaluation> others = {};    ///< on the other sets that fit was given
  Step steps = 0;                         ///< since the beginning of the run
  std::uint64_t samples = 0;              ///< likewise
  double seconds = 0;                     ///< of training, likewise: the time between two launches is not counted
  double samples_per_s = 0;               ///< of this launch
  double input_share = 0;                 ///< of this worker's steps: the share of their time spent waiting for samples
  std::string parameters_sha256 = {};     ///< of all parameters in the order of their names
  std::string state_sha256 = {};          ///< of all parameters, then of all buffers
  std::string stopped_because = {};       ///< empty = it ran to its end
  std::string strategy = {};              ///< "allreduce", "ps:bsp"
  std::optional<double> sparsity = {};    ///< where parameters are pruned: the share of those that can be which is zero
  std::optional<double> loss_scale = {};  ///< where it adapts: the last one
  Step steps_left_out = 0;                ///< likewise: because their gradients were not finite
  std::optional<Communication> communication = {};  ///< of the chief; nullopt = not counted
  std::optional<HeldBytes> held = {};               ///< likewise

  nlohmann::json json() const;
};

/// How long a run is, and how its steps are made.
struct RunPlan {
  Step steps = 0;
  Step steps_per_epoch = 0;
  std::uint64_t batch = 0;
  Lane lanes = 1;
  std::string strategy = {};  ///< "allreduce", "ps:bsp"
  Step first_step = 0;        ///< not 0: the run goes on with this step
  std::string best_by = {};   ///< see Task::best_by
};

/// What a callback may do.
class TrainControl {
 public:
  virtual ~TrainControl() = default;

  /// All workers stop after the next step; `reason` appears in the result.
  virtual void request_stop(const std::string& reason) = 0;
};

/// Observes training on the chief, from the training thread.
class Callback {
 public:
  virtual ~Callback() = default;
  virtual void on_start(const Model& /*model*/, const RunPlan& /*plan*/) {}
  virtual void on_row(const MetricsRow& /*row*/, TrainControl& /*control*/) {}
  virtual void on_evaluation(Step /*step*/, const Evaluation& /*evaluation*/, TrainControl& /*control*/) {}
  virtual void on_end(const Model& /*model*/, const TrainResult& /*result*/) {}

  /// Whether it keeps the model of `on_start` and reads its parameters before `on_end`. It is then refused where no
  /// worker has all of them while it trains: with strategy zero:3, or a mesh that divides the model.
  virtual bool reads_model() const { return false; }
};

/// `metrics.jsonl`: a line per row of metrics ("kind": "train") and per evaluation ("kind": "test").
std::shared_ptr<Callback> write_metrics(const std::filesystem::path& path);

/// TensorBoard event files; `hyperparameters` fill its table of them.
std::shared_ptr<Callback> write_tensorboard(const std::filesystem::path& folder,
                                            const std::map<std::string, std::string>& hyperparameters = {});

/// The final parameters as safetensors, and the result beside them as JSON.
std::shared_ptr<Callback> save_final(const std::filesystem::path& model, const std::filesystem::path& result);

/// A live line on standard error.
std::shared_ptr<Callback> show_progress();

/// Stops when the test loss has not improved in `patience` evaluations.
std::shared_ptr<Callback> stop_early(std::uint32_t patience);

/// Stops after a time.
std::shared_ptr<Callback> limit_time(std::chrono::milliseconds limit);

/// Stops once an evaluation on the test set reaches this: stop_at(Goal::parse("accuracy>=0.9")).
std::shared_ptr<Callback> stop_at(Goal goal);

/// Saves the model of the best evaluation so far: by the metric that the task names as its best, else by the loss.
std::shared_ptr<Callback> save_best(const std::filesystem::path& path);

/// What forward and backward compute with.
enum class Precision {
  kFp32,
  kBf16,  ///< matrix products and convolutions in bfloat16 (LibTorch's autocast)
  kFp16,  ///< the same in float16: on GPUs only; needs a loss scale, which is dynamic unless one is given
};

/// "fp32", "bf16", "fp16". Throws InvalidArgument that lists these and suggests one.
Precision parse_precision(const std::string& text);

struct TrainOptions {
  std::uint64_t batch = 64;  ///< samples per step, over all workers
  std::uint64_t epochs = 1;  ///< how long; `steps` overrides it
  Step steps = 0;
  Lane lanes = 0;                ///< slices of the batch; 0 = one per worker. The result depends on it, not on workers
  std::uint32_t accumulate = 1;  ///< each lane is computed in this many parts, of which only one has to fit in memory
  std::uint64_t seed = 1;
  data::Sharding sharding = {};  ///< which lane reads which part of the data

  std::filesystem::path init = {};  ///< a model to start from, as load_model reads it; the chief does. A run that goes
                                    ///< on from a checkpoint of its own does not read it
  std::string init_prefix = {};     ///< only what is under it: see LoadOptions::prefix

  optim::UpdateConfig optimizer{.rule = optim::Rule::kAdam};
  double lr = 1e-3;
  std::string schedule = "cosine";  ///< see optim::make_schedule
  Step warmup = 0;
  double clip_norm = 0;  ///< the mean gradient of an update is scaled down to this norm; 0 = off
  std::vector<optim::ParameterGroup> groups = {};  ///< parameters with rates and decay of their own, or frozen; of
                                                   ///< several that match the first counts
  optim::PruneOptions prune = {};                  ///< if its sparsity is not 0
  Precision precision = Precision::kFp32;          ///< of forward and backward; parameters and sums stay float32
  optim::LossScaleOptions loss_scale = {};         ///< for small gradients in low precision

  cluster::StrategyChoice strategy = {};  ///< how gradients become an update, and where parameters live
  ps::Consistency consistency = {};       ///< of strategy ps
  cluster::MeshChoice mesh = {};          ///< of strategies allreduce and zero: how the model itself is divided
  cluster::BufferPolicy buffers = cluster::BufferPolicy::kAverage;  ///< batch-norm statistics

  codec::Spec codec = {};  ///< how gradients travel; not for local-sgd, which exchanges parameters

  Task task = {};  ///< what training means; one without a function: the ready one that fits the samples

  torch::Device device = torch::kCPU;
  bool cuda_graphs = true;     ///< on a GPU, the work of a step of a steady model and task is started as a whole
  bool deterministic = false;  ///< on a GPU, the same bits from run to run and for any number of workers: only
                               ///< algorithms that promise them, which are slower; what has none is refused
  int threads = 0;             ///< of LibTorch; 0 = (cores - 1) / lanes: by lanes, so that results do not depend on
                               ///< workers; one core is left to servers and the network
  Step log_every = 10;         ///< steps per row of metrics
  Step histograms_every = 0;   ///< steps per histogram of the parameters and their gradients, for TensorBoard; 0 = none
  bool evaluate_each_epoch = true;  ///< else only at the end
  double slowdown = 1;              ///< experiments: this worker takes this many times as long for its gradients
  std::chrono::milliseconds least_step{0};  ///< experiments: minimum duration of a step

  CheckpointOptions checkpoint = {};  ///< in the run folder; a run restarted there continues from the newest

  bool balance = false;      ///< lanes move from slow workers to fast ones; the result stays the same
  bool timeline = false;     ///< each worker records what it does when: timeline.json in the run folder
  Step profile_steps = 0;    ///< the chief records every operation of so many steps: RunFolder::profile
  bool trace_steps = false;  ///< and a trace of when its steps began and ended, complete even if it dies

  std::vector<std::shared_ptr<Callback>> callbacks = {};  ///< besides the usual files; run on the chief
};

/// A dataset to evaluate on, besides the test set, and what its results are called.
struct NamedSet {
  std::string name = {};
  data::DatasetPtr samples = {};
};

/// Trains a model together with all other workers of the job.
///
///   auto job = trireme::Job::join();
///   trireme::Trainer trainer(*job, net, {.epochs = 5, .lr = 1e-3});
///   trainer.fit(train, test);
class Trainer {
 public:
  /// Throws InvalidArgument if the options contradict each other.
  Trainer(Job& job, Model model, TrainOptions options);

  /// Trains until the plan, a callback or the master ends it, then evaluates on `test` (null = not at all) and the
  /// other sets, and saves. All workers call it with the same arguments. On the chief the result is complete; on the
  /// others, and on one that was asked to leave (SIGTERM, while this runs: `trireme scale`), it has only steps and
  /// time. Throws InvalidArgument if the task cannot be had with these samples.
  TrainResult fit(data::DatasetPtr train, data::DatasetPtr test = nullptr, std::vector<NamedSet> others = {});

 private:
  class Run;

  JobSession& job_;
  Model model_;
  TrainOptions options_;
};

/// How good `model` is on all of `dataset`, by the task of `options`; computed by this process alone.
Evaluation evaluate(const Model& model, const data::Dataset& dataset, const TrainOptions& options);

/// SHA-256 over the bytes of all parameters, in the order of their names.
std::string hash_parameters(const torch::nn::Module& module);

/// The same of all parameters, then of all buffers.
std::string hash_state(const torch::nn::Module& module);

}  // namespace trireme
