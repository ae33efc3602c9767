#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "trireme/random.h"
#include "trireme/sampler.h"
#include "trireme/sources.h"
#include "trireme/trainer.h"

#include "job/job_session.h"
#include "tests/support/temp_folder.h"

namespace trireme {

/// A job of this process alone, whose run folder goes away with it.
class AloneJob {
 public:
  AloneJob() {
    std::filesystem::current_path(folder_.path());
    job_ = std::make_unique<Job>(std::make_unique<JobSession>(std::nullopt));
  }
  ~AloneJob() {
    job_.reset();
    std::filesystem::current_path(before_);
  }
  AloneJob(const AloneJob&) = delete;
  AloneJob& operator=(const AloneJob&) = delete;

  Job& operator*() { return *job_; }
  Job* operator->() { return job_.get(); }

 private:
  const std::filesystem::path before_ = std::filesystem::current_path();
  TempFolder folder_;
  std::unique_ptr<Job> job_;
};

/// `count` points of the plane; class 1 is where the first coordinate is positive, by a margin.
inline data::DatasetPtr make_points(std::uint64_t count, std::uint64_t seed = 1) {
  std::vector<float> features;
  std::vector<std::int64_t> labels;
  RandomStream random(seed);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::int64_t>(random.below(2));
    const double x = 0.2 + random.uniform();
    features.push_back(static_cast<float>(label == 1 ? x : -x));
    features.push_back(static_cast<float>(random.normal()));
    labels.push_back(label);
  }
  return data::in_memory(
      "points", {data::input("features", std::move(features), {2}), data::label("label", std::move(labels), 2)});
}

/// Calls `loss(output, target)` for the mean loss of a batch.
template <typename Loss>
Task task_with(Loss loss) {
  Task task;
  task.name = "test";
  task.compute = [loss](const Model& model, const Batch& batch) -> Outcome {
    return {.loss = loss(model.forward(batch.inputs()), batch.target()), .metrics = {}};
  };
  return task;
}

/// Two numbers in, two classes out.
inline Model make_linear() {
  torch::manual_seed(7);
  return torch::nn::Linear(2, 2);
}

}  // namespace trireme
