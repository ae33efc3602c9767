#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "cluster/strategy_choice.h"
#include "codec/spec.h"
#include "optim/update_config.h"
#include "ps/consistency.h"
#include "train/run_checkpoints.h"

namespace trireme {

class Callback;

/// Mean loss of a batch: (output, target) -> scalar.
using Loss = std::function<torch::Tensor(const torch::Tensor& output, const torch::Tensor& target)>;

/// How many samples of a batch are right: (output, target) -> count.
using Metric = std::function<double(const torch::Tensor& output, const torch::Tensor& target)>;

Loss cross_entropy();
Metric correct_predictions();

struct TrainOptions {
  std::uint64_t batch = 64;  ///< samples per step, over all workers
  std::uint64_t epochs = 1;  ///< how long; `steps` overrides it
  Step steps = 0;
  Lane lanes = 0;                ///< slices of the batch; 0 = one per worker. The result depends on it, not on workers
  std::uint32_t accumulate = 1;  ///< each lane is computed in so many parts: only one of them has to fit in memory
  std::uint64_t seed = 1;

  optim::UpdateConfig optimizer{.rule = optim::Rule::kAdam};
  double lr = 1e-3;
  std::string schedule = "cosine";  ///< see optim::make_schedule
  Step warmup = 0;
  double clip_norm = 0;  ///< each lane's mean gradient is scaled down to this norm; 0 = off

  cluster::StrategyChoice strategy;  ///< how gradients become an update, and where parameters live
  ps::Consistency consistency;       ///< of strategy ps
  cluster::BufferPolicy buffers =
      cluster::BufferPolicy::kAverage;  ///< batch-norm statistics; ps keeps each worker's own

  codec::Spec codec;  ///< how gradients travel; not for local-sgd, which exchanges parameters

  Loss loss = cross_entropy();
  Metric metric = correct_predictions();

  torch::Device device = torch::kCPU;
  int threads = 0;      ///< of LibTorch; 0 = (cores - 1) / lanes: by lanes, so that results do not depend on
                        ///< workers; one core is left to servers and the network
  Step log_every = 10;  ///< steps per row of metrics
  bool evaluate_each_epoch = true;          ///< else only at the end
  double slowdown = 1;                      ///< experiments: this worker takes so many times as long for its gradients
  std::chrono::milliseconds least_step{0};  ///< experiments: no step takes less

  CheckpointOptions checkpoint;  ///< in the run folder; a run that is started there again goes on from the newest

  bool balance = false;      ///< lanes move from slow workers to fast ones; the result stays the same
  bool timeline = false;     ///< each worker writes what it did when into the run folder
  bool trace_steps = false;  ///< and which step it began and ended when, so that its death loses nothing of that

  std::vector<std::shared_ptr<Callback>> callbacks;  ///< besides the usual files; run on the chief
};

}  // namespace trireme
