#pragma once

#include "trireme/task.h"
#include "trireme/trainer.h"

namespace trireme {

/// Returns `task`, or the ready one that fits the samples if it has no function. Throws InvalidArgument if the task
/// cannot be had with these samples.
Task task_or_ready(Task task, const data::Schema& samples);

/// Throws InvalidArgument unless a model of these samples can be evaluated on the set.
void check_set(const NamedSet& set, const data::Schema& samples);

/// Throws InvalidArgument if the loss is no scalar.
void check_loss(const Outcome& outcome, const Task& task);

/// Returns the value of the loss, after which `outcome.metrics` are complete. Waits for the GPU. Throws InvalidArgument
/// as `check_loss`, or if a metric has a name that rows of metrics use for something else.
double settle(Outcome& outcome, const Task& task);

/// Returns how good an evaluation is, for checkpoints that are kept because they are the best: higher is better.
double score(const Task& task, const Evaluation& evaluation);

}  // namespace trireme
