#include "app/predict.h"

#include <algorithm>
#include <fstream>
#include <numeric>

#include "trireme/trainer.h"

#include "app/prediction.h"
#include "app/trained_model.h"
#include "base/error.h"
#include "base/log.h"
#include "cluster/environment.h"
#include "job/job_session.h"
#include "train/evaluator.h"

namespace trireme::app {
namespace {

constexpr std::uint64_t kBatch = 256;  // samples that go through the model at once

/// The samples of one worker.
struct Share {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};

/// Whole batches, cut by the number of samples alone: what goes through the model together, and with it every bit, does
/// not depend on how many workers there are. The first one always has some.
Share share_of(std::uint64_t samples, Rank rank, std::uint64_t workers) {
  const std::uint64_t batches = (samples + kBatch - 1) / kBatch;
  const auto begin = [&](std::uint64_t of) {
    return std::min(samples, (batches * of + workers - 1) / workers * kBatch);
  };
  return {begin(rank), begin(rank + 1)};
}

void log_as_placed() {
  if (const auto place = cluster::read_environment()) set_up_logging(place->logging());
}

/// All have done their part: the chief says what came out, and the job ends.
void conclude(Job& job, const nlohmann::json& result) {
  job.ranks().run(collective::barrier());
  if (job.chief()) job.session().membership().post_result(result);
  job.leave();
}

}  // namespace

void evaluate(const cli::ModelUse& use) {
  log_as_placed();
  const data::DatasetPtr samples = cli::load_samples(use);
  const auto job = Job::join();
  const TrainedModel trained = load_trained(use, job->rank());
  TrainOptions options;
  options.task = trained.task;
  options.device = trained.device;
  const Evaluation found =
      evaluate_set(trained.model, {.name = "test", .samples = samples}, options, EvaluationPlace::among(&job->ranks()));
  nlohmann::json metrics = nlohmann::json::array();
  for (const NamedValue& metric : found.metrics) metrics.push_back({{"name", metric.name}, {"value", metric.value}});
  conclude(*job, {{"samples", samples->size()},
                  {"data", samples->describe()},
                  {"loss", found.loss},
                  {"metrics", std::move(metrics)}});
}

void predict(const cli::ModelUse& use) {
  log_as_placed();
  const data::DatasetPtr samples = cli::load_samples(use);
  const auto job = Job::join();
  const TrainedModel trained = load_trained(use, job->rank());
  const Prediction prediction(use.task, use.schema, use.probabilities);
  const std::filesystem::path path = std::filesystem::path(use.out) / fmt::format("part-{}", job->rank());
  std::ofstream file(path, std::ios::binary);
  const torch::NoGradGuard no_grad;
  const Share share = share_of(samples->size(), job->rank(), job->workers());
  const std::uint64_t end = share.end;
  std::vector<std::uint64_t> indices;
  torch::Tensor rows;
  for (std::uint64_t first = share.first; first < end; first += kBatch) {
    indices.resize(std::min(kBatch, end - first));
    std::iota(indices.begin(), indices.end(), first);
    rows = prediction.of(trained.model, read_samples(*samples, indices, trained.device));
    file << (use.npy ? prediction.as_numbers(rows) : prediction.as_text(rows));
  }
  file.close();
  if (!file) fail<IoError>("cannot write {}: is the disk full?", path.string());
  nlohmann::json result{{"samples", samples->size()}};
  if (job->chief() && use.npy) {
    result["dtype"] = prediction.numpy_type();
    std::vector<std::uint64_t> shape{samples->size()};
    for (std::int64_t axis = 1; axis < rows.dim(); ++axis) {
      shape.push_back(static_cast<std::uint64_t>(rows.size(axis)));
    }
    result["shape"] = shape;
  } else if (job->chief()) {
    result["header"] = prediction.header(rows);
  }
  conclude(*job, result);
}

}  // namespace trireme::app
