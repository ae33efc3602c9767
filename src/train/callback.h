#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "base/deadline.h"
#include "cluster/protocol.h"
#include "models/model.h"
#include "observe/metrics_file.h"
#include "observe/progress.h"
#include "observe/tensorboard.h"
#include "train/strategy/strategy.h"

namespace trireme {

/// Loss and accuracy over a whole dataset.
struct Evaluation {
  double loss = 0;
  double accuracy = 0;
};

/// What training achieved.
struct TrainResult {
  std::optional<Evaluation> test;
  Step steps = 0;
  std::uint64_t samples = 0;
  double seconds = 0;
  double samples_per_s = 0;
  std::string parameters_sha256;               ///< of all parameters in the order of their names
  std::string stopped_because;                 ///< empty = it ran to its end
  std::string strategy;                        ///< "allreduce", "ps:bsp"
  std::optional<Communication> communication;  ///< of the chief; nothing = not counted

  nlohmann::json json() const;
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
  virtual void on_start(const Model& /*model*/, const cluster::Plan& /*plan*/) {}
  virtual void on_row(const cluster::MetricsRow& /*row*/, TrainControl& /*control*/) {}
  virtual void on_evaluation(Step /*step*/, const Evaluation& /*evaluation*/, TrainControl& /*control*/) {}
  virtual void on_end(const Model& /*model*/, const TrainResult& /*result*/) {}
};

/// `metrics.jsonl`: a line per row of metrics ("kind": "train") and per evaluation ("kind": "test").
std::shared_ptr<Callback> write_metrics(const std::filesystem::path& path);

/// TensorBoard event files.
std::shared_ptr<Callback> write_tensorboard(const std::filesystem::path& folder);

/// The final parameters as safetensors, and the result beside them as JSON.
std::shared_ptr<Callback> save_final(const std::filesystem::path& model, const std::filesystem::path& result);

/// A live line on standard error.
std::shared_ptr<Callback> show_progress(observe::ProgressOptions options = {});

/// Stops when the test loss has not improved in `patience` evaluations.
std::shared_ptr<Callback> stop_early(std::uint32_t patience);

/// Stops after a time.
std::shared_ptr<Callback> limit_time(std::chrono::milliseconds limit);

/// Stops once an evaluation reaches this accuracy.
std::shared_ptr<Callback> stop_at_accuracy(double accuracy);

/// With Trainer: the model of the evaluation with the highest test accuracy so far (or the lowest loss).
enum class BestBy { kAccuracy, kLoss };
std::shared_ptr<Callback> save_best(const std::filesystem::path& path, BestBy by = BestBy::kAccuracy);

/// SHA-256 over the bytes of all parameters, in the order of their names.
std::string hash_parameters(const torch::nn::Module& module);

}  // namespace trireme
