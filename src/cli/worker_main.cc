// The workers of `trireme train`: started by it, with the flags as JSON.
#include <csignal>
#include <cstdio>
#include <exception>

#include "trireme/trainer.h"

#include "base/error.h"
#include "base/log.h"
#include "cli/train_flags.h"
#include "cli/worker_options.h"
#include "cluster/environment.h"
#include "job/termination.h"
#include "tensor/device.h"

namespace trireme::cli {
namespace {

void work(const TrainFlags& flags) {
  leave_on_sigterm();
  if (const auto place = cluster::read_environment()) set_up_logging(place->logging());  // before the data is read
  const data::Split data = load_data(flags);
  const auto job = Job::join();
  seed_torch(flags.seed);
  TrainOptions options = to_options(flags, job->rank());
  options.task = make_task(flags.task.empty() ? task_for(data.train->schema()) : flags.task,
                           {.label_smoothing = flags.label_smoothing});
  const Model model = make_model(flags.model, data.train->schema(), options.task.outputs(data.train->schema()));
  Trainer(*job, model, std::move(options)).fit(data.train, data.test);
}

}  // namespace
}  // namespace trireme::cli

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    if (argc != 2) trireme::fail<trireme::InvalidArgument>("this program is started by 'trireme train'");
    trireme::cli::work(nlohmann::json::parse(argv[1]).get<trireme::cli::TrainFlags>());
    return 0;
  } catch (const std::exception& problem) {
    fmt::print(stderr, "trireme-worker: {}\n", problem.what());
    return 1;
  }
}
