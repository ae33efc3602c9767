#include "train/check_task.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::array kTaken{"loss",      "step", "epoch", "samples", "samples_per_s", "lr",      "clock_min",
                            "clock_max", "time", "kind",  "seconds", "interval_s",    "strategy"};

}  // namespace

Task task_or_ready(Task task, const data::Schema& samples) {
  if (!task.compute) task = make_task(task_for(samples));
  if (task.outputs) task.outputs(samples);
  return task;
}

void check_set(const NamedSet& set, const data::Schema& samples) {
  if (!set.samples || set.name.empty() || set.name == "train") {
    fail<InvalidArgument>("a set to evaluate on needs samples, and a name other than 'train': '{}'", set.name);
  }
  if (set.samples->schema() == samples) return;
  fail<InvalidArgument>("the samples of set '{}' are {}, and those to train on are {}", set.name,
                        set.samples->schema().describe(), samples.describe());
}

void check_loss(const Outcome& outcome, const Task& task) {
  if (!outcome.loss.defined() || outcome.loss.numel() != 1) {
    fail<InvalidArgument>("task '{}' gave a loss of {} numbers: it must be one, the mean over the batch", task.name,
                          outcome.loss.defined() ? outcome.loss.numel() : 0);
  }
}

double settle(Outcome& outcome, const Task& task) {
  check_loss(outcome, task);
  const auto loss = outcome.loss.item<double>();
  if (outcome.late_metrics) add(outcome.metrics, std::exchange(outcome.late_metrics, {})(loss));
  for (const Metric& metric : outcome.metrics) {
    if (!metric.name.empty() && std::ranges::find(kTaken, metric.name) == kTaken.end()) continue;
    fail<InvalidArgument>("task '{}' cannot have a metric named '{}': rows of metrics use that name", task.name,
                          metric.name);
  }
  return loss;
}

double score(const Task& task, const Evaluation& evaluation) {
  return task.best_by.empty() ? -evaluation.loss : evaluation.metric(task.best_by);
}

}  // namespace trireme
