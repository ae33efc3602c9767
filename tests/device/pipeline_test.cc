// A pipeline whose stages are on a device: the bits of one rank that has all of it there.

#include <gtest/gtest.h>

#include "trireme/layers.h"

#include "models/gpt.h"
#include "tests/dist/ranks.h"
#include "tests/train/pipeline/testing.h"

namespace trireme {
namespace {

/// Shapes that the kernels take: widths, rows and vocabulary of eight.
parallel::Subject subject() {
  std::vector<std::int32_t> tokens;
  RandomStream random(3);
  for (int i = 0; i < 8 * 5; ++i) tokens.push_back(static_cast<std::int32_t>(random.below(16)));
  return {
      .layers =
          [] {
            return models::gpt({.layers = 2, .heads = 2, .width = 16, .context = 4, .vocabulary = 16, .dropout = 0});
          },
      .samples = data::in_memory(
          "tokens", {data::column<std::int32_t>({.name = "tokens", .shape = {5}, .classes = {16}}, std::move(tokens))}),
      .task = language_model()};
}

std::string hash_after_two_steps(std::uint32_t pipe, const std::string& pipeline, Precision precision) {
  const parallel::Subject given = subject();
  TrainOptions options{.batch = 8,
                       .steps = 2,
                       .lanes = 2,
                       .optimizer = {.rule = optim::Rule::kAdamW},
                       .lr = 0.01,
                       .schedule = "constant",
                       .clip_norm = 0.5,
                       .precision = precision,
                       .task = given.task,
                       .threads = 1,
                       .evaluate_each_epoch = false,
                       .checkpoint = {.every = 0}};
  options.mesh = {.data = 1, .pipe = pipe, .pipeline = pipeline};
  options.strategy = {.kind = cluster::StrategyChoice::Kind::kAllReduce};
  std::vector<Model> models(pipe);
  for (Model& model : models) {
    torch::manual_seed(11);
    if (pipe == 1) {
      model = whole_model(given.layers());
    } else {
      model.layers = std::make_shared<const LayerList>(given.layers());
    }
  }
  std::string hash;
  run_ranks({.workers = pipe}, [&](Job& job) {
    const TrainResult own = Trainer(job, models[job.rank()], options).fit(given.samples, given.samples);
    if (job.chief()) hash = own.parameters_sha256;
  });
  return hash;
}

TEST(PipelineOnDevice, GivesTheBitsOfOneRank) {
  EXPECT_EQ(hash_after_two_steps(2, "1f1b", Precision::kFp32), hash_after_two_steps(1, "1f1b", Precision::kFp32));
  EXPECT_EQ(hash_after_two_steps(2, "zb-h1", Precision::kBf16), hash_after_two_steps(1, "1f1b", Precision::kBf16));
}

}  // namespace
}  // namespace trireme
