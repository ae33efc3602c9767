#pragma once

#include "trireme/model.h"
#include "trireme/task.h"

#include "cli/start/trained_run.h"

namespace trireme::app {

/// The model of a run, ready to be used: on its device, in evaluation mode.
struct TrainedModel {
  Model model = {};
  Task task = {};
  torch::Device device = torch::kCPU;
};

/// Throws InvalidArgument that names tensors if the weights do not fit the network; Corrupt, IoError.
TrainedModel load_trained(const cli::ModelUse& use, Rank rank);

}  // namespace trireme::app
