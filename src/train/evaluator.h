#pragma once

#include <functional>
#include <optional>

#include "trireme/collective.h"
#include "trireme/task.h"
#include "trireme/trainer.h"

namespace trireme {

/// Who evaluates which blocks of a dataset, and how.
struct EvaluationPlace {
  collective::Communicator* ranks = nullptr;  ///< those who evaluate together; null: this process alone
  std::uint64_t first = 0;                    ///< this rank's blocks are `first`, `first + stride`, ...
  std::uint64_t stride = 1;

  /// Called as often as this rank has fewer batches than the one with the most. Null: nobody cares.
  std::function<void()> skip = {};

  /// What is put into the mode of evaluation; null: the model's.
  torch::nn::Module* module = nullptr;

  /// What the task makes of a batch; nullopt where another rank has it. Null: the task with the model.
  std::function<std::optional<Outcome>(const Task& task, const Batch& batch)> compute = {};

  /// All of `ranks`, which all have the same parameters, each a part; null: this process alone.
  static EvaluationPlace among(collective::Communicator* ranks) {
    if (ranks == nullptr) return {};
    return {.ranks = ranks, .first = ranks->rank(), .stride = ranks->size()};
  }
};

/// Evaluates `model` on all of a dataset, by the task of `options`; with `place.ranks`, all of them together.
///
/// The samples are cut into blocks by their number alone, and the sums of blocks are added in order, so the result has
/// the same bits whoever computes which block, alone or together. With ranks a collective call: all get the result.
/// Throws as the collectives do.
Evaluation evaluate_set(const Model& model, const NamedSet& set, const TrainOptions& options,
                        const EvaluationPlace& place);

}  // namespace trireme
