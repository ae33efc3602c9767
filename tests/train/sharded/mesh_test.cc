// Models that are divided among ranks that are threads of this process: the same bits as one rank that has all of it.

#include <gtest/gtest.h>

#include "trireme/layers.h"

#include "base/error.h"
#include "elastic/peer_failure.h"
#include "tests/dist/ranks.h"
#include "tests/support/exhaustive.h"
#include "tests/support/temp_folder.h"
#include "tests/train/pipeline/testing.h"
#include "train/sharded/fit_mesh.h"
#include "train/sharded/sharded.h"
#include "train/sharded/slices.h"

namespace trireme {
namespace {

using StrategyKind = cluster::StrategyChoice::Kind;

constexpr cluster::StrategyChoice kAllReduce{.kind = StrategyKind::kAllReduce};

cluster::StrategyChoice zero(std::uint32_t stage, std::uint32_t shards = 0) {
  return {.kind = StrategyKind::kZero, .zero = {.stage = stage, .shards = shards}};
}

struct Layout {
  cluster::MeshChoice mesh;
  cluster::StrategyChoice strategy = kAllReduce;

  std::uint32_t workers() const { return std::max(1u, mesh.data) * mesh.pipe * mesh.tensor; }
};

TrainOptions steps_of(const parallel::Subject& subject, Step steps) {
  return {.batch = 12,
          .steps = steps,
          .lanes = 6,
          .seed = 5,
          .optimizer = {.rule = optim::Rule::kAdamW, .l2 = 0.01, .ema = 0.9},
          .lr = 0.01,
          .schedule = "constant",
          .clip_norm = 0.5,
          .task = subject.task,
          .threads = 1,
          .evaluate_each_epoch = true,
          .checkpoint = {.every = 4}};
}

using Adapt = std::function<void(Job& job, TrainOptions& options)>;

/// Trains on ranks of one layout, in a folder of its own or in one where a run goes on. `adapt` changes the options of
/// one rank.
TrainResult train_on(const parallel::Subject& subject, const Layout& layout, TrainOptions options,
                     const std::filesystem::path& folder = {}, const Adapt& adapt = {}) {
  options.mesh = layout.mesh;
  options.strategy = layout.strategy;
  std::vector<Model> models;
  for (std::uint32_t rank = 0; rank < layout.workers(); ++rank) {
    torch::manual_seed(11);
    if (layout.mesh.divides_model()) {
      models.emplace_back();
      models.back().layers = std::make_shared<const LayerList>(subject.layers());
    } else {
      models.push_back(whole_model(subject.layers()));
    }
  }
  TrainResult result;
  run_ranks({.workers = layout.workers(), .folder = folder}, [&](Job& job) {
    TrainOptions here = options;
    if (adapt) adapt(job, here);
    const TrainResult own = Trainer(job, models[job.rank()], here).fit(subject.samples, subject.samples);
    if (job.chief()) result = own;
  });
  return result;
}

const Layout kAlone{.mesh = {.data = 1}};

void expect_same(const parallel::Subject& subject, const std::vector<Layout>& layouts) {
  const TrainOptions options = steps_of(subject, 8);
  const TrainResult expected = train_on(subject, kAlone, options);
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(cluster::to_string(layout.mesh) + " " + layout.mesh.pipeline + " " +
                 cluster::to_string(layout.strategy));
    const TrainResult result = train_on(subject, layout, options);
    EXPECT_EQ(result.parameters_sha256, expected.parameters_sha256);
    EXPECT_EQ(result.state_sha256, expected.state_sha256);
    ASSERT_TRUE(result.test.has_value());
    EXPECT_EQ(result.test->loss, expected.test->loss);
    ASSERT_FALSE(result.test->metrics.empty());
    EXPECT_EQ(result.test->metrics.front().value, expected.test->metrics.front().value);
  }
}

TEST(Mesh, EveryLayoutOfAGptGivesTheSameBits) {
  std::vector<Layout> layouts{
      {.mesh = {.data = 1, .pipe = 2}},
      {.mesh = {.data = 2, .pipe = 2, .pipeline = "zb-v"}, .strategy = zero(2)},
      {.mesh = {.data = 1, .pipe = 3, .pipeline = "zb-h1", .recompute = true}},
      {.mesh = {.data = 3, .pipe = 2, .pipeline = "interleaved"}, .strategy = zero(1)},
      {.mesh = {.data = 2}, .strategy = zero(3)},
      {.mesh = {.data = 3}, .strategy = zero(3)},
      {.mesh = {.data = 1, .pipe = 2, .stages = "1,5"}},
  };
  if (exhaustive()) {
    for (const std::uint32_t data : {1u, 2u, 3u, 6u}) {
      for (const std::uint32_t pipe : {2u, 3u, 4u, 6u}) {
        if (data * pipe > 12) continue;
        for (const char* pipeline : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"}) {
          if (pipe > 3 && std::string_view(pipeline) != "1f1b" && std::string_view(pipeline) != "gpipe" &&
              std::string_view(pipeline) != "zb-h1") {
            continue;  // six layers are too few
          }
          for (const std::uint32_t stage : {0u, 1u, 2u}) {
            layouts.push_back({.mesh = {.data = data, .pipe = pipe, .pipeline = pipeline},
                               .strategy = stage == 0 ? kAllReduce : zero(stage)});
          }
        }
      }
    }
  }
  expect_same(parallel::gpt_subject(), layouts);
}

TEST(Mesh, LayersThatStagesDoNotDivideAllTrain) {
  parallel::Subject subject = parallel::gpt_subject();  // of 30 layers: the embedding, 28 blocks, the head
  subject.layers = [] { return models::gpt({.layers = 28, .heads = 2, .width = 8, .context = 6, .vocabulary = 13}); };
  ASSERT_EQ(subject.layers().size(), 30u);
  expect_same(subject, {{.mesh = {.data = 1, .pipe = 4}}});
}

TEST(Mesh, AFrozenTieHasNoGradients) {
  const parallel::Subject subject = parallel::gpt_subject();
  TrainOptions options = steps_of(subject, 4);
  options.groups = {{.match = "wte*", .frozen = true}};
  const TrainResult expected = train_on(subject, kAlone, options);
  const TrainResult result = train_on(subject, {.mesh = {.data = 1, .pipe = 2}}, options);
  EXPECT_EQ(result.parameters_sha256, expected.parameters_sha256);
}

TEST(Mesh, EveryLayoutOfAResNetGivesTheSameBits) {
  expect_same(parallel::resnet_subject(), {{.mesh = {.data = 2, .pipe = 2}, .strategy = zero(2)},
                                           {.mesh = {.data = 1, .pipe = 3, .pipeline = "zb-h1"}},
                                           {.mesh = {.data = 2}, .strategy = zero(3)}});
}

TEST(Mesh, TensorLanesGiveTheSameBitsWhoeverComputesThem) {
  const parallel::Subject subject = parallel::gpt_subject();
  TrainOptions options = steps_of(subject, 6);
  options.clip_norm = 0;
  const TrainResult expected = train_on(subject, {.mesh = {.data = 1, .tensor_lanes = 2}}, options);
  for (const Layout& layout : std::vector<Layout>{
           {.mesh = {.data = 1, .tensor = 2, .tensor_lanes = 2}},
           {.mesh = {.data = 2, .tensor = 2, .tensor_lanes = 2}, .strategy = zero(2)},
           {.mesh = {.data = 1, .pipe = 2, .tensor = 2, .tensor_lanes = 2}},
           {.mesh = {.data = 2, .pipe = 2, .tensor = 2, .pipeline = "zb-h1", .tensor_lanes = 2}, .strategy = zero(1)},
       }) {
    SCOPED_TRACE(cluster::to_string(layout.mesh));
    const TrainResult result = train_on(subject, layout, options);
    EXPECT_EQ(result.parameters_sha256, expected.parameters_sha256);
    EXPECT_EQ(result.test->loss, expected.test->loss);
  }
}

TEST(Mesh, ACheckpointOfAnyLayoutContinuesOnAnyOther) {
  const parallel::Subject subject = parallel::gpt_subject();
  const std::string expected = train_on(subject, kAlone, steps_of(subject, 20)).parameters_sha256;
  const TempFolder folder;
  const auto go_on = [&](const Layout& layout, Step steps) {
    return train_on(subject, layout, steps_of(subject, steps), folder.path()).parameters_sha256;
  };
  go_on({.mesh = {.data = 2, .pipe = 2}, .strategy = zero(1)}, 4);
  go_on({.mesh = {.data = 3}, .strategy = zero(3)}, 8);
  go_on({.mesh = {.data = 1, .pipe = 3, .pipeline = "zb-h1"}}, 12);
  go_on({.mesh = {.data = 2}, .strategy = kAllReduce}, 16);
  EXPECT_EQ(go_on({.mesh = {.data = 1, .pipe = 2, .pipeline = "zb-v"}}, 20), expected);
}

TEST(Mesh, ACheckpointOfSlicesOfUnequalSizeIsWrittenOnce) {
  parallel::Subject subject = parallel::gpt_subject();
  // One rank has a row of the vocabulary more than the other, so one of the two numbers of tokens makes them cut what
  // both have whole, the embedding of positions, at different places.
  for (const std::int64_t tokens : {13, 15}) {
    SCOPED_TRACE(tokens);
    subject.layers = [tokens] {
      return models::gpt({.layers = 1, .heads = 2, .width = 16, .context = 256, .vocabulary = tokens});
    };
    const auto options = [&](Step steps) {
      TrainOptions result = steps_of(subject, steps);
      result.clip_norm = 0;
      return result;
    };
    const std::string expected =
        train_on(subject, {.mesh = {.data = 1, .tensor_lanes = 2}}, options(8)).parameters_sha256;
    const TempFolder folder;
    train_on(subject, {.mesh = {.data = 2, .tensor = 2, .tensor_lanes = 2}, .strategy = zero(1)}, options(4),
             folder.path());
    EXPECT_TRUE(std::filesystem::exists(folder.path() / "checkpoints" / "step-000000004" / "manifest.json"));
    const Layout other{.mesh = {.data = 3, .tensor_lanes = 2}, .strategy = zero(2)};
    EXPECT_EQ(train_on(subject, other, options(8), folder.path()).parameters_sha256, expected);
  }
}

/// One evaluation of one of the ranks ends as if a peer were dead, for all of them.
Adapt losing_a_peer_in_an_evaluation() {
  const auto lost = std::make_shared<std::atomic<bool>>(false);
  return [lost](Job& job, TrainOptions& options) {
    const auto lose = [lost, &job] {
      if (torch::GradMode::is_enabled() || lost->exchange(true)) return;
      job.session().ranks().abort("a worker died in the evaluation");
      fail<PeerLost>("a worker died in the evaluation");
    };
    options.task.compute = [lose, compute = options.task.compute](const Model& model, const Batch& batch) {
      lose();
      return compute(model, batch);
    };
    options.task.outcome = [lose, outcome = options.task.outcome](const torch::Tensor& output, const Batch& batch) {
      lose();
      return outcome(output, batch);
    };
  };
}

TEST(Mesh, APeerThatIsLostBetweenStepsTakesNoBuffersBack) {
  const parallel::Subject subject = parallel::resnet_subject();
  const TrainResult expected = train_on(subject, kAlone, steps_of(subject, 8));
  for (const Layout& layout : std::vector<Layout>{{.mesh = {.data = 2}},
                                                  {.mesh = {.data = 2}, .strategy = zero(1)},
                                                  {.mesh = {.data = 2, .pipe = 2}, .strategy = zero(1)},
                                                  {.mesh = {.data = 1, .pipe = 2}}}) {
    SCOPED_TRACE(cluster::to_string(layout.mesh) + " " + cluster::to_string(layout.strategy));
    const TrainResult result = train_on(subject, layout, steps_of(subject, 8), {}, losing_a_peer_in_an_evaluation());
    EXPECT_EQ(result.parameters_sha256, expected.parameters_sha256);
    EXPECT_EQ(result.state_sha256, expected.state_sha256);
  }
}

TEST(Mesh, AViewThatBreaksWhileItFormsLosesNothing) {
  const parallel::Subject subject = parallel::resnet_subject();
  TrainOptions options = steps_of(subject, 8);
  options.mesh = {.data = 1, .pipe = 2};
  options.strategy = kAllReduce;
  std::array<Model, 2> models;
  for (Model& model : models) {
    torch::manual_seed(11);
    model.layers = std::make_shared<const LayerList>(subject.layers());
  }
  run_ranks({.workers = 2}, [&](Job& job) {
    JobSession& session = job.session();
    session.membership().set_plan({.steps = 8, .batch = 12, .lanes = 6, .elastic = true});
    Sharded strategy(session, models[job.rank()], options, nullptr);
    const auto state = [&] {
      const std::optional<Model> whole = strategy.collect();
      return session.chief() ? hash_state(*whole->module) : "";
    };
    strategy.sync_state({});
    const StepWork work = parallel::work_of(*subject.samples, 0, 6, 12);
    strategy.begin({.step = 0, .lanes = work.lanes, .samples = 12, .lr = 0.01});
    strategy.computer()->compute(work, strategy);
    strategy.finish();
    const std::string before = state();
    EXPECT_TRUE(session.regroup("another view"));
    session.ranks().abort("a worker died while this view formed");
    EXPECT_THROW(strategy.sync_state({}), PeerLost);
    EXPECT_TRUE(regroup_after_failure(session, "and another one"));
    EXPECT_EQ(strategy.sync_state({}), 1u);
    EXPECT_EQ(state(), before);
    strategy.leave();
    session.membership().leave();
  });
}

TEST(Mesh, WhatCannotBeDividedIsRefused) {
  const parallel::Subject subject = parallel::gpt_subject();
  const TrainOptions options = steps_of(subject, 2);
  EXPECT_THROW(train_on(subject, {.mesh = {.data = 1, .pipe = 7}}, options), InvalidArgument);  // six layers
  EXPECT_THROW(train_on(subject, {.mesh = {.data = 1, .pipe = 2, .stages = "1,2"}}, options), InvalidArgument);
  EXPECT_THROW(train_on(subject, {.mesh = {.data = 1, .pipe = 2}, .strategy = zero(3)}, options), InvalidArgument);
  EXPECT_THROW(train_on(subject, {.mesh = {.data = 1, .pipe = 2}, .strategy = {}}, options), InvalidArgument);
  TrainOptions prunes = options;
  prunes.prune = {.sparsity = 0.5, .every = 1};
  EXPECT_THROW(train_on(subject, {.mesh = {.data = 1, .tensor = 2, .tensor_lanes = 2}}, prunes), InvalidArgument);
}

TEST(Mesh, WhatReadsAllParametersIsRefusedWhereNobodyHasThem) {
  const parallel::Subject subject = parallel::gpt_subject();
  const TempFolder folder;
  TrainOptions draws = steps_of(subject, 2);
  draws.histograms_every = 1;
  TrainOptions saves = steps_of(subject, 2);
  saves.callbacks = {save_best(folder.path() / "best.safetensors")};
  for (const TrainOptions& options : {draws, saves}) {
    EXPECT_THROW(train_on(subject, {.mesh = {.data = 2}, .strategy = zero(3)}, options), InvalidArgument);
    EXPECT_THROW(train_on(subject, {.mesh = {.data = 1, .pipe = 2}}, options), InvalidArgument);
    EXPECT_NO_THROW(train_on(subject, {.mesh = {.data = 2}, .strategy = zero(2)}, options));
  }
}

TEST(FitMesh, KeepsStagesAndSlicesAsLongAsThereAreWorkersForThem) {
  const plan::Mesh wanted{.data = 2, .pipe = 2, .tensor = 2};
  EXPECT_EQ(fit_mesh(wanted, 8, 8).mesh, wanted);
  EXPECT_EQ(fit_mesh(wanted, 8, 8).reason, "");
  EXPECT_EQ(fit_mesh(wanted, 7, 8).mesh, (plan::Mesh{.data = 1, .pipe = 2, .tensor = 2}));
  EXPECT_EQ(fit_mesh(wanted, 7, 8).used(), 4u);
  EXPECT_NE(fit_mesh(wanted, 7, 8).reason, "");
  EXPECT_EQ(fit_mesh(wanted, 3, 8).mesh, (plan::Mesh{.data = 1, .pipe = 1, .tensor = 2}));
  EXPECT_EQ(fit_mesh(wanted, 1, 8).mesh, (plan::Mesh{.data = 1, .pipe = 1, .tensor = 1}));
  EXPECT_EQ(fit_mesh(wanted, 12, 8).mesh, (plan::Mesh{.data = 3, .pipe = 2, .tensor = 2}));
  EXPECT_EQ(fit_mesh({.data = 1, .tensor = 6}, 5, 8).mesh, (plan::Mesh{.data = 1, .tensor = 3}));
}

TEST(WholeTensor, KnowsWhereItsElementsAre) {
  // Rows 2 and 3 of each of three matrices of four rows and five columns.
  const WholeTensor rows({6, 5}, ParameterSlice{.dim = 0, .begin = 2, .end = 4, .whole = 4, .pieces = 3});
  EXPECT_EQ(rows.shape(), (std::vector<std::int64_t>{12, 5}));
  const auto runs = rows.runs(5, 10);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].whole, 15u);
  EXPECT_EQ(runs[0].count, 5u);
  EXPECT_EQ(runs[1].whole, 30u);
  EXPECT_EQ(rows.local(30), 10u);
  // Columns 1 and 2 of four.
  const WholeTensor columns({3, 2}, ParameterSlice{.dim = 1, .begin = 1, .end = 3, .whole = 4});
  EXPECT_EQ(columns.runs(0, 6).size(), 3u);
  for (std::uint64_t i = 0; i < 6; ++i) EXPECT_EQ(columns.local(columns.runs(i, 1).front().whole), i);
}

}  // namespace
}  // namespace trireme
