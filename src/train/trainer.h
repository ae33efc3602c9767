#pragma once

#include <memory>

#include "data/dataset.h"
#include "job/job.h"
#include "train/callback.h"
#include "train/options.h"
#include "train/strategy/strategy.h"

namespace trireme {

/// Trains a model with everybody else in the job.
///
///   auto job = trireme::Job::join();
///   trireme::Trainer trainer(*job, net, {.epochs = 5, .lr = 1e-3});
///   trainer.fit(train, test);
class Trainer {
 public:
  /// Throws InvalidArgument if the options make no sense together.
  Trainer(Job& job, Model model, TrainOptions options);

  /// Trains until the plan, a callback or the master ends it, then evaluates on `test` (null = not at all) and saves.
  /// All workers call it with the same arguments. On the chief the result is complete; the others know steps and time.
  TrainResult fit(std::shared_ptr<const data::Dataset> train, std::shared_ptr<const data::Dataset> test = nullptr);

 private:
  class Run;

  Job& job_;
  Model model_;
  TrainOptions options_;
};

/// Mean loss and accuracy of `model` on all of `dataset`.
Evaluation evaluate(const Model& model, const data::Dataset& dataset, const TrainOptions& options);

}  // namespace trireme
