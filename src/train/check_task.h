#pragma once

#include "trireme/task.h"
#include "trireme/trainer.h"

namespace trireme {

/// Returns `task`, or the ready one that fits the samples if it has no function. Throws InvalidArgument if the task
/// cannot be had with these samples.
Task task_or_ready(Task task, const data::Schema& samples);

/// Throws InvalidArgument if the loss is no scalar, or a metric has a name that rows of metrics use for something else.
void check_outcome(const Outcome& outcome, const Task& task);

/// Returns how good an evaluation is, for checkpoints that are kept because they are the best: higher is better.
double score(const Task& task, const Evaluation& evaluation);

}  // namespace trireme
