#include "app/trained_model.h"

#include "trireme/checkpoint.h"
#include "trireme/compute_threads.h"

#include "tensor/device/device.h"

namespace trireme::app {

TrainedModel load_trained(const cli::ModelUse& use, Rank rank) {
  set_compute_threads(use.flags.threads);
  TrainedModel trained{.task = make_task(use.task), .device = pick_device(use.flags.device, rank)};
  const std::int64_t outputs = trained.task.outputs ? trained.task.outputs(use.schema) : 0;
  trained.model = make_model(use.flags.model, use.schema, outputs);
  load_model(*trained.model.module, use.weights);
  trained.model.module->to(trained.device);
  trained.model.module->eval();
  return trained;
}

}  // namespace trireme::app
