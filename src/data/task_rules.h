#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/schema.h"

namespace trireme::data {

// Which of the ready tasks can be had with which samples: asked by the launcher before anything starts, and by the
// tasks themselves.

/// classification, multi-label, regression, language-model, autoencoder.
const std::vector<std::string>& ready_tasks();

/// Returns how many numbers per sample (or per token) a network should give for this task. Throws InvalidArgument,
/// naming the field and what fits, if the samples do not fit the task or there is no such task.
std::int64_t outputs_for(const std::string& task, const Schema& samples);

/// Returns the ready task that fits the samples best. Throws InvalidArgument if none does.
std::string fitting_task(const Schema& samples);

/// Returns the metrics of the test set that a ready task reports, the most telling one first; "loss" is the last.
/// Throws InvalidArgument if there is no such task.
std::vector<std::string> ready_metrics(const std::string& task);

}  // namespace trireme::data
