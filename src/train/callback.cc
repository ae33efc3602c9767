#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "trireme/checkpoint.h"
#include "trireme/deadline.h"
#include "trireme/trainer.h"

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "cluster/protocol.h"
#include "observe/metrics_file.h"
#include "observe/progress.h"
#include "observe/tensorboard.h"
#include "tensor/device/host_memory.h"

namespace trireme {
namespace {

class MetricsWriter final : public Callback {
 public:
  explicit MetricsWriter(const std::filesystem::path& path) : file_(path) {}

  void on_start(const Model& /*model*/, const RunPlan& plan) override { strategy_ = plan.strategy; }

  void on_row(const MetricsRow& row, TrainControl& /*control*/) override {
    nlohmann::json line(row);
    line.erase("metrics");
    for (const NamedValue& metric : row.metrics) line[metric.name] = metric.value;
    line["kind"] = "train";
    line["strategy"] = strategy_;
    file_.append(line);
  }

  void on_evaluation(Step step, const Evaluation& evaluation, TrainControl& /*control*/) override {
    nlohmann::json line{
        {"kind", evaluation.set}, {"step", step}, {"loss", evaluation.loss}, {"time", observe::unix_time()}};
    for (const NamedValue& metric : evaluation.metrics) line[metric.name] = metric.value;
    file_.append(line);
  }

 private:
  observe::MetricsFile file_;
  std::string strategy_;
};

class TensorBoardWriter final : public Callback {
 public:
  TensorBoardWriter(const std::filesystem::path& folder, const std::map<std::string, std::string>& hyperparameters)
      : file_(folder), hyperparameters_(hyperparameters) {}

  void on_start(const Model& /*model*/, const RunPlan& plan) override {
    if (plan.first_step > 0) file_.begin_after(plan.first_step);
    if (!hyperparameters_.empty()) file_.add_hyperparameters(hyperparameters_);
  }

  void on_row(const MetricsRow& row, TrainControl& /*control*/) override {
    file_.add_scalar("train/loss", row.loss, row.step, row.time);
    for (const NamedValue& metric : row.metrics) {
      file_.add_scalar("train/" + metric.name, metric.value, row.step, row.time);
    }
    file_.add_scalar("train/lr", row.lr, row.step, row.time);
    file_.add_scalar("speed/samples_per_s", row.samples_per_s, row.step, row.time);
    file_.add_scalar("speed/clock_spread", static_cast<double>(row.clock_max - row.clock_min), row.step, row.time);
  }

  void on_evaluation(Step step, const Evaluation& evaluation, TrainControl& /*control*/) override {
    file_.add_scalar(evaluation.set + "/loss", evaluation.loss, step);
    for (const NamedValue& metric : evaluation.metrics) {
      file_.add_scalar(evaluation.set + "/" + metric.name, metric.value, step);
    }
  }

 private:
  observe::EventFile file_;
  const std::map<std::string, std::string> hyperparameters_;
};

class FinalSave final : public Callback {
 public:
  FinalSave(std::filesystem::path model, std::filesystem::path result)
      : model_(std::move(model)), result_(std::move(result)) {}

  void on_end(const Model& model, const TrainResult& result) override {
    save_model(*model.module, model_, {{"steps", std::to_string(result.steps)}, {"sha256", result.parameters_sha256}});
    write_file_atomically(result_, as_bytes(result.json().dump(2) + "\n"));
  }

 private:
  std::filesystem::path model_;
  std::filesystem::path result_;
};

class ProgressShow final : public Callback {
 public:
  void on_start(const Model& /*model*/, const RunPlan& plan) override {
    plan_ = plan;
    line_.print_above(fmt::format("{} steps of {} samples, strategy {}", plan.steps, plan.batch, plan.strategy));
  }

  void on_row(const MetricsRow& row, TrainControl& /*control*/) override {
    const double left = static_cast<double>(plan_.steps - std::min(plan_.steps, row.step));
    line_.update({.epoch = row.epoch,
                  .epochs = plan_.steps / std::max<Step>(1, plan_.steps_per_epoch),
                  .step = row.step,
                  .steps = plan_.steps,
                  .samples_per_s = row.samples_per_s,
                  .loss = row.loss,
                  .metrics = row.metrics,
                  .clock_min = row.clock_min,
                  .clock_max = row.clock_max,
                  .seconds_left = row.step == 0 ? NAN : row.seconds / static_cast<double>(row.step) * left});
  }

  void on_evaluation(Step step, const Evaluation& evaluation, TrainControl& /*control*/) override {
    std::string text = fmt::format("step {}: {}", step, evaluation.set);
    for (const NamedValue& metric : evaluation.metrics) text += " " + describe(metric) + ",";
    line_.print_above(text + fmt::format(" loss {:.4f}", evaluation.loss));
  }

  void on_end(const Model& /*model*/, const TrainResult& /*result*/) override { line_.finish(); }

 private:
  observe::ProgressLine line_{observe::ProgressOptions{}};
  RunPlan plan_;
};

class EarlyStop final : public Callback {
 public:
  explicit EarlyStop(std::uint32_t patience) : patience_(patience) {}

  void on_evaluation(Step /*step*/, const Evaluation& evaluation, TrainControl& control) override {
    if (evaluation.set != "test") return;
    if (evaluation.loss < best_) {
      best_ = evaluation.loss;
      without_progress_ = 0;
    } else if (++without_progress_ >= patience_) {
      control.request_stop(fmt::format("the test loss has not improved in {} evaluations", patience_));
    }
  }

 private:
  std::uint32_t patience_;
  std::uint32_t without_progress_ = 0;
  double best_ = INFINITY;
};

class TimeLimit final : public Callback {
 public:
  explicit TimeLimit(std::chrono::milliseconds limit) : limit_(limit) {}

  void on_start(const Model& /*model*/, const RunPlan& /*plan*/) override { end_.emplace(Deadline::in(limit_)); }

  void on_row(const MetricsRow& /*row*/, TrainControl& control) override {
    if (end_->passed()) control.request_stop(fmt::format("the time limit of {:.0f} s is reached", seconds(limit_)));
  }

 private:
  std::chrono::milliseconds limit_;
  std::optional<Deadline> end_;
};

class StopAt final : public Callback {
 public:
  explicit StopAt(Goal goal) : goal_(std::move(goal)) {}

  void on_evaluation(Step /*step*/, const Evaluation& evaluation, TrainControl& control) override {
    if (evaluation.set != "test") return;
    const double now = evaluation.metric(goal_.metric);
    if (std::isnan(now)) {
      std::string names = "loss";
      for (const NamedValue& metric : evaluation.metrics) names += ", " + metric.name;
      fail<InvalidArgument>("the goal {} cannot be reached: there is no such metric, only {}", goal_.describe(), names);
    }
    if (goal_.reached(now)) {
      control.request_stop(fmt::format("the goal {} is reached: {}", goal_.describe(), describe({goal_.metric, now})));
    }
  }

 private:
  Goal goal_;
};

/// In the order of names.
void add(Sha256& hash, const torch::OrderedDict<std::string, torch::Tensor>& tensors) {
  std::map<std::string, torch::Tensor> by_name;
  for (const auto& item : tensors) by_name[item.key()] = item.value();
  for (const auto& [name, tensor] : by_name) {
    const torch::Tensor host = on_host(tensor);
    hash.add(bytes_of(host));
  }
}

}  // namespace

nlohmann::json TrainResult::json() const {
  nlohmann::json result{{"steps", steps},
                        {"samples", samples},
                        {"samples_per_s", samples_per_s},
                        {"seconds", seconds},
                        {"input_share", input_share},
                        {"parameters_sha256", parameters_sha256},
                        {"state_sha256", state_sha256},
                        {"strategy", strategy}};
  const auto add = [&](const Evaluation& evaluation) {
    result[evaluation.set + "_loss"] = evaluation.loss;
    for (const NamedValue& metric : evaluation.metrics) result[evaluation.set + "_" + metric.name] = metric.value;
  };
  if (test) add(*test);
  for (const Evaluation& other : others) add(other);
  if (!stopped_because.empty()) result["stopped_because"] = stopped_because;
  if (sparsity) result["sparsity"] = *sparsity;
  if (loss_scale) {
    result["loss_scale"] = *loss_scale;
    result["steps_left_out"] = steps_left_out;
  }
  if (communication) {
    result["wire_bytes"] = communication->wire_bytes;
    result["plain_bytes"] = communication->plain_bytes;
    result["encode_seconds"] = communication->encode_seconds;
  }
  if (held) {
    result["held_bytes"] = {{"parameters", held->parameters},
                            {"gradients", held->gradients},
                            {"optimizer", held->optimizer},
                            {"in_transit", held->in_transit}};
  }
  return result;
}

std::shared_ptr<Callback> write_metrics(const std::filesystem::path& path) {
  return std::make_shared<MetricsWriter>(path);
}

std::shared_ptr<Callback> write_tensorboard(const std::filesystem::path& folder,
                                            const std::map<std::string, std::string>& hyperparameters) {
  return std::make_shared<TensorBoardWriter>(folder, hyperparameters);
}

std::shared_ptr<Callback> save_final(const std::filesystem::path& model, const std::filesystem::path& result) {
  return std::make_shared<FinalSave>(model, result);
}

std::shared_ptr<Callback> show_progress() { return std::make_shared<ProgressShow>(); }

std::shared_ptr<Callback> stop_early(std::uint32_t patience) { return std::make_shared<EarlyStop>(patience); }

std::shared_ptr<Callback> limit_time(std::chrono::milliseconds limit) { return std::make_shared<TimeLimit>(limit); }

std::shared_ptr<Callback> stop_at(Goal goal) { return std::make_shared<StopAt>(std::move(goal)); }

std::string hash_parameters(const torch::nn::Module& module) {
  Sha256 hash;
  add(hash, module.named_parameters());
  return hash.hex();
}

std::string hash_state(const torch::nn::Module& module) {
  Sha256 hash;
  add(hash, module.named_parameters());
  add(hash, module.named_buffers());
  return hash.hex();
}

}  // namespace trireme
