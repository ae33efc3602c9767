#pragma once

// A pipeline on threads beside a LaneComputer that has the whole model.

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/random.h"
#include "trireme/sampler.h"
#include "trireme/sources.h"

#include "models/gpt.h"
#include "models/resnet.h"
#include "tests/collective/testing.h"
#include "train/compute/lane_computer.h"
#include "train/pipeline/pipeline_computer.h"
#include "train/pipeline/stage_cut.h"

namespace trireme::parallel {

/// Keeps gradients by name, and buffers' sums.
class KeptGradients final : public GradientSink {
 public:
  KeptGradients(std::vector<NamedParameter> parameters, std::size_t mean_floats)
      : parameters_(std::move(parameters)), buffers_(mean_floats, 99.0f) {
    for (const NamedParameter& parameter : parameters_) {
      gradients_.push_back(torch::full(parameter.tensor.sizes(), 99.0f));
    }
    added_.resize(parameters_.size());
  }
  std::span<float> gradient(std::size_t i) override {
    return {gradients_[i].data_ptr<float>(), static_cast<std::size_t>(gradients_[i].numel())};
  }
  void add(std::size_t i) override { ++added_[i]; }
  std::optional<std::span<float>> buffer_sums() override { return buffers_; }

  /// Adds what is here to `all`; each parameter was added once.
  void collect(std::map<std::string, torch::Tensor>& all) const {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      EXPECT_EQ(added_[i], 1) << parameters_[i].name;
      EXPECT_TRUE(all.emplace(parameters_[i].name, gradients_[i].clone()).second) << parameters_[i].name;
    }
  }
  const std::vector<float>& buffers() const { return buffers_; }

 private:
  std::vector<NamedParameter> parameters_;
  std::vector<torch::Tensor> gradients_;
  std::vector<int> added_;
  std::vector<float> buffers_;
};

/// A network with samples for it.
struct Subject {
  std::function<LayerList()> layers;
  data::DatasetPtr samples;
  Task task;
};

inline Subject gpt_subject(double dropout = 0.2) {
  std::vector<std::int32_t> tokens;
  RandomStream random(3);
  for (int i = 0; i < 64 * 7; ++i) tokens.push_back(static_cast<std::int32_t>(random.below(13)));
  return {
      .layers =
          [dropout] {
            return models::gpt(
                {.layers = 4, .heads = 2, .width = 8, .context = 6, .vocabulary = 13, .dropout = dropout});
          },
      .samples = data::in_memory(
          "tokens", {data::column<std::int32_t>({.name = "tokens", .shape = {7}, .classes = {13}}, std::move(tokens))}),
      .task = language_model()};
}

inline Subject resnet_subject() {
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  RandomStream random(4);
  for (int i = 0; i < 64 * 3 * 8 * 8; ++i) pixels.push_back(static_cast<float>(random.normal()));
  for (int i = 0; i < 64; ++i) labels.push_back(static_cast<std::int64_t>(random.below(5)));
  return {.layers =
              [] {
                return models::resnet({.blocks = {2, 1, 1}, .width = 4, .classes = 5});
              },
          .samples = data::in_memory("images", {data::input("image", std::move(pixels), {3, 8, 8}),
                                                data::label("label", std::move(labels), 5)}),
          .task = classification()};
}

inline StepWork work_of(const data::Dataset& dataset, Step step, Lane lanes, std::uint64_t batch) {
  const data::Sampler sampler({.samples = dataset.size(), .batch = batch, .lanes = lanes, .seed = 5});
  StepWork work{.step = step, .lanes = {0, lanes}, .items = {}};
  for (Lane lane = 0; lane < lanes; ++lane) {
    data::Item item;
    item.work = {.step = step, .lane = lane, .indices = sampler.indices(step, lane)};
    dataset.read(item.work.indices, item.batch);
    work.items.push_back(std::move(item));
  }
  return work;
}

/// What a step gave, over all ranks.
struct StepOutcome {
  std::map<std::string, torch::Tensor> gradients;
  std::map<std::string, torch::Tensor> buffers;  // sums
  double loss = 0;
  std::uint64_t samples = 0;
};

inline void collect_buffers(const torch::nn::Module& module, const std::vector<float>& sums, StepOutcome& outcome) {
  std::size_t at = 0;
  for (const auto& item : module.named_buffers()) {
    if (item.value().scalar_type() != torch::kFloat32) {
      outcome.buffers.emplace(item.key(), item.value().clone());
      continue;
    }
    const auto count = static_cast<std::size_t>(item.value().numel());
    outcome.buffers.emplace(item.key(),
                            torch::tensor(std::vector<float>(sums.begin() + static_cast<std::ptrdiff_t>(at),
                                                             sums.begin() + static_cast<std::ptrdiff_t>(at + count))));
    at += count;
  }
}

inline TrainOptions options_of(const Subject& subject) {
  TrainOptions options;
  options.seed = 5;
  options.task = subject.task;
  return options;
}

/// The step on one process.
inline StepOutcome compute_whole(const Subject& subject, const std::shared_ptr<const LayerList>& list, Lane lanes,
                                 std::uint64_t batch, TrainOptions options, Step step = 0) {
  torch::set_num_threads(1);  // of this thread: sums depend on it
  const Model model = whole_model(list);
  LaneComputer computer(model, options);
  KeptGradients kept(trainable_parameters(*model.module), ModelBuffers(*model.module).mean_floats());
  StepOutcome outcome;
  for (const LaneStatistics& lane : computer.compute(work_of(*subject.samples, step, lanes, batch), kept)) {
    outcome.loss += lane.loss_sum;
    outcome.samples += lane.samples;
  }
  kept.collect(outcome.gradients);
  collect_buffers(*model.module, kept.buffers(), outcome);
  return outcome;
}

/// The same on a pipeline of threads.
inline StepOutcome compute_pipeline(const Subject& subject, const std::shared_ptr<const LayerList>& list,
                                    const PipelineOptions& pipeline, std::uint64_t batch, const TrainOptions& options,
                                    Step step = 0) {
  const auto size = static_cast<std::uint32_t>(pipeline.schedule.ranks.size());
  std::vector<std::shared_ptr<const MadeLayers>> made;  // one after the other: torch's generator is one for all
  for (Rank rank = 0; rank < size; ++rank) {
    made.push_back(make_stages(list, pipeline.stages, pipeline.schedule, rank));
  }
  std::vector<StepOutcome> outcomes(size);
  collective::expect_ranks(size, {}, [&](collective::Communicator& ranks) {
    torch::set_num_threads(1);
    StepOutcome& outcome = outcomes[ranks.rank()];
    PipelineComputer computer(made[ranks.rank()], pipeline, options, ranks);
    KeptGradients kept(computer.parameters(), ModelBuffers(*computer.module()).mean_floats());
    const StepWork work = work_of(*subject.samples, step, pipeline.schedule.micro_batches, batch);
    for (const LaneStatistics& lane : computer.compute(work, kept)) {
      outcome.loss += lane.loss_sum;
      outcome.samples += lane.samples;
    }
    kept.collect(outcome.gradients);
    collect_buffers(*computer.module(), kept.buffers(), outcome);
  });
  StepOutcome all;
  for (StepOutcome& outcome : outcomes) {
    all.gradients.merge(outcome.gradients);
    EXPECT_TRUE(outcome.gradients.empty()) << "a parameter of two ranks";
    all.buffers.merge(outcome.buffers);
    all.loss += outcome.loss;
    all.samples += outcome.samples;
  }
  return all;
}

inline void expect_same_bits(const StepOutcome& a, const StepOutcome& b, const std::string& what) {
  EXPECT_EQ(a.loss, b.loss) << what;
  EXPECT_EQ(a.samples, b.samples) << what;
  ASSERT_EQ(a.gradients.size(), b.gradients.size()) << what;
  for (const auto& [name, gradient] : b.gradients) {
    const auto found = a.gradients.find(name);
    ASSERT_NE(found, a.gradients.end()) << name << ": " << what;
    EXPECT_TRUE(torch::equal(found->second, gradient)) << name << ": " << what;
  }
  ASSERT_EQ(a.buffers.size(), b.buffers.size()) << what;
  for (const auto& [name, buffer] : b.buffers) {
    EXPECT_TRUE(torch::equal(a.buffers.at(name), buffer)) << name << ": " << what;
  }
}

}  // namespace trireme::parallel
