#include <algorithm>
#include <numeric>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cluster/protocol.h"
#include "elastic/transfers.h"
#include "tensor/autocast.h"
#include "train/check_task.h"
#include "train/compute/tensor_batch.h"
#include "train/evaluator.h"

namespace trireme {
namespace {

constexpr std::uint64_t kBatch = 500;        // samples that go through the model at once, at most
constexpr std::uint64_t kMostBlocks = 1024;  // of a set, however large
constexpr std::size_t kMostMetrics = 16;
constexpr std::size_t kSums = 1 + 2 * kMostMetrics;  // of a block: its loss; of each metric a sum and a count

/// Of models that say something for each token, no more samples go through at once than a lane trains with: what they
/// say takes a multiple of all else.
std::uint64_t batch_size(const data::Dataset& samples, const TrainOptions& options) {
  for (const std::size_t input : samples.schema().with(data::Role::kInput)) {
    const data::Field& field = samples.schema()[input];
    if (!field.classes.empty() && !field.shape.empty()) {
      return std::clamp<std::uint64_t>(options.batch / std::max<Lane>(1, options.lanes), 1, kBatch);
    }
  }
  return kBatch;
}

/// The model evaluates, and then trains again if it did.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module) : module_(module), was_training_(module.is_training()) {
    module_.eval();
  }
  ~EvaluationMode() { module_.train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  const torch::NoGradGuard no_grad_;
  torch::nn::Module& module_;
  bool was_training_;
};

/// Computes blocks of a dataset.
class BlockSums {
 public:
  BlockSums(const Model& model, const data::Dataset& samples, const Task& task, const TrainOptions& options,
            const EvaluationPlace& place)
      : model_(model),
        samples_(samples),
        task_(task),
        options_(options),
        place_(place),
        batch_size_(batch_size(samples, options)) {
    const std::uint64_t batches = (samples.size() + batch_size_ - 1) / batch_size_;
    batches_per_block_ = std::max<std::uint64_t>(1, (batches + kMostBlocks - 1) / kMostBlocks);
    blocks_ = (batches + batches_per_block_ - 1) / batches_per_block_;
    sums_.resize(blocks_ * kSums);
  }

  std::uint64_t blocks() const { return blocks_; }
  std::span<double> all() { return sums_; }

  void compute(std::uint64_t block) {
    const std::uint64_t end = std::min(samples_.size(), (block + 1) * batches_per_block_ * batch_size_);
    double* sums = sums_.data() + block * kSums;
    for (std::uint64_t first = block * batches_per_block_ * batch_size_; first < end; first += batch_size_) {
      indices_.resize(std::min(batch_size_, end - first));
      std::iota(indices_.begin(), indices_.end(), first);
      samples_.read(indices_, batch_);
      std::optional<Outcome> computed = outcome_of(to_tensors(batch_, {0, batch_.size()}, options_.device));
      if (!computed) continue;
      Outcome& outcome = *computed;
      const double loss = settle(outcome, task_);
      if (outcome.metrics.size() > kMostMetrics) {
        fail<InvalidArgument>("task '{}' has {} metrics: {} are possible", task_.name, outcome.metrics.size(),
                              kMostMetrics);
      }
      if (metrics_.empty()) metrics_ = outcome.metrics;
      sums[0] += loss * static_cast<double>(batch_.size());
      for (std::size_t i = 0; i < outcome.metrics.size(); ++i) {
        sums[1 + 2 * i] += outcome.metrics[i].sum;
        sums[2 + 2 * i] += outcome.metrics[i].count;
      }
    }
  }

  /// Not every rank has seen what metrics there are.
  void share_metrics(collective::Communicator& ranks) {
    for (const std::string& text : gather_texts(ranks, nlohmann::json(metrics_).dump())) {
      if (metrics_.empty()) metrics_ = nlohmann::json::parse(text).get<Metrics>();
    }
  }

  /// How many batches the rank whose first block is `first` has.
  std::uint64_t batches(std::uint64_t first) const {
    const std::uint64_t all = (samples_.size() + batch_size_ - 1) / batch_size_;
    std::uint64_t count = 0;
    for (std::uint64_t block = first; block < blocks_; block += place_.stride) {
      count += std::min(all, (block + 1) * batches_per_block_) - block * batches_per_block_;
    }
    return count;
  }

  Evaluation finish(const std::string& set) {
    double loss = 0;
    for (Metric& metric : metrics_) metric.sum = metric.count = 0;
    for (std::uint64_t block = 0; block < blocks_; ++block) {
      const double* sums = sums_.data() + block * kSums;
      loss += sums[0];
      for (std::size_t i = 0; i < metrics_.size(); ++i) {
        metrics_[i].sum += sums[1 + 2 * i];
        metrics_[i].count += sums[2 + 2 * i];
      }
    }
    return {.loss = loss / static_cast<double>(samples_.size()), .metrics = values_of(metrics_), .set = set};
  }

 private:
  std::optional<Outcome> outcome_of(const Batch& batch) const {
    const AutocastScope precision(options_.precision, options_.device);
    return place_.compute ? place_.compute(task_, batch) : task_.compute(model_, batch);
  }

  const Model& model_;
  const data::Dataset& samples_;
  const Task& task_;
  const TrainOptions& options_;
  const EvaluationPlace& place_;
  const std::uint64_t batch_size_;
  std::uint64_t batches_per_block_ = 1;
  std::uint64_t blocks_ = 0;
  std::vector<double> sums_;  // by block
  Metrics metrics_;           // names and forms, from the first batch computed here
  data::Batch batch_;
  std::vector<std::uint64_t> indices_;
};

}  // namespace

Evaluation evaluate_set(const Model& model, const NamedSet& set, const TrainOptions& options,
                        const EvaluationPlace& place) {
  const Task task = task_or_ready(options.task, set.samples->schema());
  const EvaluationMode mode(place.module != nullptr ? *place.module : *model.module);
  BlockSums sums(model, *set.samples, task, options, place);
  for (std::uint64_t block = place.first; block < sums.blocks(); block += place.stride) sums.compute(block);
  std::uint64_t most = 0;
  for (std::uint64_t first = 0; place.skip && first < place.stride; ++first) most = std::max(most, sums.batches(first));
  for (std::uint64_t own = place.skip ? sums.batches(place.first) : 0; own < most; ++own) place.skip();
  // Each number has one rank that sets it; all others add zero, which changes no bit.
  if (place.ranks != nullptr && place.ranks->size() > 1) {
    place.ranks->run(collective::all_reduce(sums.all()));
    if (place.compute) sums.share_metrics(*place.ranks);
  }
  return sums.finish(set.name);
}

Evaluation evaluate(const Model& model, const data::Dataset& dataset, const TrainOptions& options) {
  const data::DatasetPtr borrowed(data::DatasetPtr(), &dataset);
  return evaluate_set(model, {.name = "test", .samples = borrowed}, options, {});
}

}  // namespace trireme
