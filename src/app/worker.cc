#include "app/worker.h"

#include <algorithm>

#include "trireme/layers.h"
#include "trireme/trainer.h"

#include "app/generate.h"
#include "app/measure_sums.h"
#include "app/predict.h"
#include "app/time_layers.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/flags/known_names.h"
#include "cli/flags/worker_options.h"
#include "cluster/environment.h"
#include "elastic/peer_failure.h"
#include "job/termination.h"
#include "observe/run_folder.h"
#include "tensor/device/device.h"
#include "tensor/device/out_of_memory.h"
#include "tensor/files/torchscript.h"
#include "tensor/heap.h"

namespace trireme::app {
namespace {

/// A network of TorchScript goes back to where it came from.
class ExportScript final : public Callback {
 public:
  explicit ExportScript(std::filesystem::path file) : file_(std::move(file)) {}

  void on_end(const Model& model, const TrainResult& /*result*/) override { save_torchscript(model, file_); }

 private:
  std::filesystem::path file_;
};

Task task_of(const cli::TrainFlags& flags, const data::Schema& samples) {
  return make_task(flags.task.empty() ? task_for(samples) : flags.task, {.label_smoothing = flags.label_smoothing});
}

std::int64_t outputs_of(const Task& task, const data::Schema& samples) {
  return task.outputs ? task.outputs(samples) : 0;
}

/// Of a model that is divided nobody makes all.
Model make_model(const cli::TrainFlags& flags, const TrainOptions& options, const data::Schema& samples) {
  const std::int64_t outputs = outputs_of(options.task, samples);
  if (!options.mesh.divides_model()) return trireme::make_model(flags.model, samples, outputs);
  Model model;
  model.layers = make_layers(flags.model, samples, outputs);
  if (!model.layers) {
    fail<InvalidArgument>(
        "model {} is not made of layers, so --mesh cannot divide it: gpt, resnet, vit-tiny, mlp and "
        "lenet are, and what register_layers knows",
        flags.model);
  }
  return model;
}

bool is_own(const std::string& name, const std::vector<std::string>& own) {
  return std::ranges::find(own, name) != own.end();
}

}  // namespace

void train(const cli::TrainFlags& flags) {
  leave_on_sigterm();
  count_tensor_memory();
  reserve_product_memory();
  if (const auto place = cluster::read_environment()) set_up_logging(place->logging());  // before the data is read
  const data::Split data = cli::load_data(flags).split;
  const data::Schema& samples = data.train->schema();
  const auto job = Job::join();
  seed_torch(flags.seed);
  TrainOptions options = cli::to_options(flags, job->rank());
  options.task = task_of(flags, samples);
  const Model model = [&] {
    try {
      return make_model(flags, options, samples);
    } catch (const std::exception& problem) {
      if (!is_out_of_memory(problem)) throw;
      const InvalidArgument advice(out_of_memory_advice(problem, options.mesh.divides_model()));
      tell_failure(job->session(), advice);
      throw advice;
    }
  }();
  if (is_torchscript(model) && job->folder()) {
    options.callbacks.push_back(std::make_shared<ExportScript>(observe::RunFolder::open(*job->folder()).script()));
  }
  Trainer(*job, model, std::move(options)).fit(data.train, data.test);
}

void check_own(const cli::TrainFlags& flags, const data::Schema& samples) {
  const bool own_model = is_own(flags.model, cli::own_names().models);
  if (!own_model && !is_own(flags.task, cli::own_names().tasks)) return;  // the launcher has looked at the others
  const Task task = task_of(flags, samples);
  const std::int64_t outputs = outputs_of(task, samples);
  if (own_model) {
    const Model model = trireme::make_model(flags.model, samples, outputs);
    if (!model.module) fail<InvalidArgument>("model {} was registered, and makes no network", flags.model);
  }
}

void work(std::span<const std::string> words) {
  if (words.size() == 1 && words[0].starts_with('{')) {
    return train(nlohmann::json::parse(words[0]).get<cli::TrainFlags>());
  }
  if (words.size() != 2) {
    fail<InvalidArgument>("this program is started by others, such as 'trireme train'; see trireme --help");
  }
  if (words[0] == "check-device") return static_cast<void>(pick_device(words[1], /*rank=*/0));
  if (words[0] == "time-layers") return time_layers(nlohmann::json::parse(words[1]).get<LayerTimesRequest>());
  if (words[0] == "measure-sums") return measure_sums(nlohmann::json::parse(words[1]).get<SumsRequest>());
  const auto use = nlohmann::json::parse(words[1]).get<cli::ModelUse>();
  if (words[0] == "eval") return evaluate(use);
  if (words[0] == "predict") return predict(use);
  if (words[0] == "generate") return generate(use);
  fail<InvalidArgument>("a worker does not know what to do with '{}'", words[0]);
}

}  // namespace trireme::app
