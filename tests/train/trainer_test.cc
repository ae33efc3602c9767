#include "trireme/trainer.h"

#include <chrono>

#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/layout.h"
#include "checkpoint/list.h"
#include "checkpoint/safetensors/safetensors.h"
#include "tests/support/expect_fails.h"
#include "tests/support/secret.h"
#include "tests/train/alone.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

/// Counts what it is told.
class Witness final : public Callback {
 public:
  void on_start(const Model& /*model*/, const RunPlan& plan) override { planned = plan.steps; }
  void on_evaluation(Step step, const Evaluation& /*evaluation*/, TrainControl& /*control*/) override {
    evaluated_at.push_back(step);
  }
  void on_end(const Model& /*model*/, const TrainResult& /*result*/) override { ++ends; }

  Step planned = 0;
  std::vector<Step> evaluated_at;
  int ends = 0;
};

TEST(Trainer, TrainsAndWritesItsFiles) {
  AloneJob job;
  const auto witness = std::make_shared<Witness>();
  const Model model = make_linear();
  const TrainResult result = Trainer(*job, model, {.batch = 20, .epochs = 3, .lr = 0.1, .callbacks = {witness}})
                                 .fit(make_points(110), make_points(40, 2));
  EXPECT_EQ(result.steps, 18u);
  EXPECT_EQ(result.samples, 330u);
  EXPECT_GT(result.test->metric("accuracy"), 0.95);
  EXPECT_EQ(result.stopped_because, "");
  EXPECT_EQ(witness->planned, 18u);
  EXPECT_EQ(witness->evaluated_at, (std::vector<Step>{6, 12, 18}));
  EXPECT_EQ(witness->ends, 1);

  const checkpoint::SafetensorsFile file(*job->folder() / "model.safetensors");
  EXPECT_EQ(file.metadata().at("sha256"), result.parameters_sha256);
  EXPECT_EQ(file.at("weight").shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(nlohmann::json::parse(read_file(*job->folder() / "result.json")).at("parameters_sha256"),
            result.parameters_sha256);
}

TEST(Trainer, ModelStaysUsableAfterTheJob) {
  const Model model = make_linear();
  const torch::Tensor held = model.module->parameters()[0];
  TrainResult result;
  {
    AloneJob job;
    result = Trainer(*job, model, {.batch = 20, .lr = 0.1}).fit(make_points(100), make_points(40, 2));
  }
  EXPECT_EQ(hash_parameters(*model.module), result.parameters_sha256);
  EXPECT_EQ(evaluate(model, *make_points(40, 2), {}).loss, result.test->loss);
  EXPECT_EQ(held.data_ptr(), model.module->parameters()[0].data_ptr()) << "a parameter is still the same tensor";
}

TEST(Trainer, TheResultDependsOnTheSeedAlone) {
  const auto hash = [](std::uint64_t seed) {
    AloneJob job;
    torch::manual_seed(1);
    const torch::nn::Sequential net(torch::nn::Linear(2, 8), torch::nn::Dropout(0.5), torch::nn::Linear(8, 2));
    return Trainer(*job, net, {.batch = 16, .epochs = 2, .lanes = 3, .seed = seed})
        .fit(make_points(100))
        .parameters_sha256;
  };
  const std::string once = hash(1);
  EXPECT_EQ(hash(1), once);
  EXPECT_NE(hash(2), once);
}

TEST(Trainer, StepsCanEndInTheMiddleOfAnEpochOrGoOverSeveral) {
  for (const Step steps : {1u, 4u, 7u}) {
    AloneJob job;
    const TrainResult result = Trainer(*job, make_linear(), {.batch = 20, .steps = steps}).fit(make_points(50));
    EXPECT_EQ(result.steps, steps);
    EXPECT_EQ(result.samples, steps / 3 * 50 + steps % 3 * 20);
    EXPECT_FALSE(result.test.has_value());
  }
}

TEST(Trainer, AsynchronousModesDoAllTheWork) {
  for (const auto mode : {ps::Consistency::Mode::kSsp, ps::Consistency::Mode::kAsp}) {
    AloneJob job;
    const TrainResult result =
        Trainer(*job, make_linear(),
                {.batch = 20, .epochs = 4, .lanes = 2, .lr = 0.1, .consistency = {.mode = mode, .slack = 1}})
            .fit(make_points(100), make_points(40, 2));
    EXPECT_EQ(result.steps, 20u);
    EXPECT_EQ(result.samples, 400u);
    EXPECT_GT(result.test->metric("accuracy"), 0.9);
  }
}

TEST(Trainer, CheckpointsOfLaunchesWithTheSameSecretAreOfDifferentAttempts) {
  const TempFolder folder;
  const auto attempt_of = [&](const std::string& run) {
    observe::RunFolder::create({.path = folder / run});
    Job job(std::make_unique<JobSession>(cluster::JobEnvironment{.servers = 0,
                                                                 .master = {.host = "127.0.0.1"},
                                                                 .listen = {.host = "127.0.0.1"},
                                                                 .hosts_master = true,
                                                                 .secret = kSecret,
                                                                 .run_folder = (folder / run).string()}));
    Trainer(job, make_linear(), {.batch = 20, .strategy = {.kind = cluster::StrategyChoice::Kind::kAllReduce}})
        .fit(make_points(40));
    const auto newest = checkpoint::latest_complete(folder / run / "checkpoints");
    return checkpoint::load_manifest(checkpoint::real_file_system(), newest.value()).attempt;
  };
  EXPECT_NE(attempt_of("first"), attempt_of("second"));
}

TEST(Trainer, UnusedAndFrozenParametersDoNotChange) {
  struct Net : torch::nn::Module {
    torch::nn::Linear used = register_module("used", torch::nn::Linear(2, 2));
    torch::nn::Linear unused = register_module("unused", torch::nn::Linear(2, 2));
    torch::nn::Linear frozen = register_module("frozen", torch::nn::Linear(2, 2));
    torch::Tensor forward(const torch::Tensor& x) { return used(frozen(x)); }
  };
  AloneJob job;
  const auto net = std::make_shared<Net>();
  for (torch::Tensor& parameter : net->frozen->parameters()) parameter.set_requires_grad(false);
  const auto unused = net->unused->weight.detach().clone();
  const auto frozen = net->frozen->weight.detach().clone();
  const auto used = net->used->weight.detach().clone();
  Trainer(*job, net, {.batch = 20, .steps = 5, .lr = 0.1}).fit(make_points(100));
  EXPECT_TRUE(torch::equal(net->unused->weight, unused));
  EXPECT_TRUE(torch::equal(net->frozen->weight, frozen));
  EXPECT_FALSE(torch::equal(net->used->weight, used));
}

TEST(Trainer, AModuleRegisteredUnderTwoNamesTrainsAsOne) {
  struct Tied : torch::nn::Module {
    torch::nn::Linear first = register_module("first", torch::nn::Linear(2, 2));
    torch::nn::Linear again = register_module("again", first);
    torch::Tensor forward(const torch::Tensor& x) { return again(torch::tanh(first(x))); }
  };
  AloneJob job;
  torch::manual_seed(1);
  const auto tied = std::make_shared<Tied>();
  const auto before = tied->first->weight.detach().clone();
  Trainer(*job, tied, {.batch = 20, .steps = 5, .optimizer = {.rule = optim::Rule::kSgd}, .lr = 0.1})
      .fit(make_points(100));
  EXPECT_FALSE(torch::equal(tied->first->weight, before));
  EXPECT_EQ(tied->first->weight.data_ptr(), tied->again->weight.data_ptr());
}

TEST(Trainer, StopsWhenTheTestLossNoLongerFalls) {
  AloneJob job;
  const auto witness = std::make_shared<Witness>();
  const TrainResult result = Trainer(*job, make_linear(),
                                     {.batch = 20,
                                      .epochs = 100,
                                      .optimizer = {.rule = optim::Rule::kSgd},
                                      .lr = 1e-30,  // nothing changes, so the first evaluation is the best
                                      .callbacks = {stop_early(2), witness}})
                                 .fit(make_points(40), make_points(20, 2));
  EXPECT_THAT(result.stopped_because, HasSubstr("not improved in 2 evaluations"));
  EXPECT_EQ(result.steps, 7u);  // three evaluations at two steps each, and one step to tell everybody
  EXPECT_EQ(witness->evaluated_at, (std::vector<Step>{2, 4, 6, 7}));
}

TEST(Trainer, StopsAtAGoal) {
  AloneJob job;
  const TrainResult result =
      Trainer(*job, make_linear(),
              {.batch = 20, .epochs = 1000, .lr = 0.1, .callbacks = {stop_at(Goal::parse("accuracy>=0.9"))}})
          .fit(make_points(100), make_points(40, 2));
  EXPECT_THAT(result.stopped_because, HasSubstr("the goal accuracy>=0.9 is reached: accuracy 9"));
  EXPECT_LT(result.steps, 5000u);
  EXPECT_GE(result.test->metric("accuracy"), 0.85);
}

TEST(Trainer, StopsAtTheTimeLimit) {
  for (const auto mode : {ps::Consistency::Mode::kBsp, ps::Consistency::Mode::kAsp}) {
    AloneJob job;
    const TrainResult result = Trainer(*job, make_linear(),
                                       {.batch = 20,
                                        .steps = 100'000'000,
                                        .consistency = {.mode = mode},
                                        .callbacks = {limit_time(std::chrono::milliseconds(200))}})
                                   .fit(make_points(100));
    EXPECT_THAT(result.stopped_because, HasSubstr("time limit"));
    EXPECT_GE(result.seconds, 0.2);
    EXPECT_LT(result.seconds, 20);
  }
}

TEST(Trainer, StopsAtALossThatIsNotFinite) {
  std::vector<float> features(2 * 100, 1.0f);
  const data::Sampler order({.samples = 100, .batch = 20, .lanes = 4, .seed = 1});
  features[2 * order.indices(3, 2).front()] = std::numeric_limits<float>::quiet_NaN();
  AloneJob job;
  EXPECT_FAILS(Trainer(*job, make_linear(), {.batch = 20, .lanes = 4})
                   .fit(data::in_memory("holes", {data::input("features", std::move(features), {2}),
                                                  data::label("label", std::vector<std::int64_t>(100, 1), 2)})),
               InvalidArgument, "nan at step 3, lane 2");
}

TEST(Trainer, ExceptionOfTheUsersCodeIsRethrown) {
  AloneJob job;
  TrainOptions options{.batch = 20, .steps = 50};
  options.task = [](const Batch&) -> torch::Tensor { throw std::runtime_error("my own"); };
  EXPECT_FAILS(Trainer(*job, make_linear(), options).fit(make_points(100)), std::runtime_error, "my own");
}

TEST(Trainer, RefusesOptionsThatMakeNoSense) {
  AloneJob job;
  const auto refuse = [&](TrainOptions options, const std::string& text) {
    EXPECT_FAILS(Trainer(*job, make_linear(), std::move(options)), InvalidArgument, text);
  };
  refuse({.lr = 0}, "learning rate");
  refuse({.lr = std::numeric_limits<double>::quiet_NaN()}, "learning rate");
  refuse({.optimizer = {.rule = optim::Rule::kMomentum, .momentum = -1}}, "momentum");
  refuse({.consistency = {.backup_workers = 1}}, "backup");
}

TEST(Trainer, RefusesMoreLanesThanSamplesAndAModelWithoutParameters) {
  AloneJob job;
  EXPECT_FAILS(Trainer(*job, make_linear(), {.batch = 4, .lanes = 5}).fit(make_points(100)), InvalidArgument, "lanes");
  AloneJob another;
  EXPECT_FAILS(Trainer(*another, torch::nn::Sequential(torch::nn::ReLU()), {}).fit(make_points(100)), InvalidArgument,
               "no parameters");
}

TEST(Evaluate, IsTheMeanOverAllSamplesForAnyBatchSize) {
  std::vector<float> logits;
  std::vector<std::int64_t> labels;
  for (int i = 0; i < 1003; ++i) {  // every third sample is labelled wrongly
    logits.insert(logits.end(), {2.0f, 0.0f});
    labels.push_back(i % 3 == 0 ? 1 : 0);
  }
  const auto dataset = data::in_memory("logits", {data::input("logits", logits, {2}), data::label("label", labels, 2)});
  struct Identity : torch::nn::Module {
    torch::Tensor forward(const torch::Tensor& x) {
      EXPECT_FALSE(is_training());
      return x;
    }
  };
  const auto net = std::make_shared<Identity>();
  const Evaluation evaluation = evaluate(net, *dataset, {});
  EXPECT_DOUBLE_EQ(evaluation.metric("accuracy"), 668.0 / 1003);
  EXPECT_NEAR(evaluation.loss, std::log(1 + std::exp(-2.0)) + 2 * 335.0 / 1003, 1e-5);
  EXPECT_TRUE(net->is_training()) << "as it was before";
}

TEST(HashParameters, SeesNamesInOrderAndEveryBit) {
  const Model model = make_linear();
  const std::string before = hash_parameters(*model.module);
  EXPECT_EQ(hash_parameters(*make_linear().module), before);
  torch::NoGradGuard no_grad;
  model.module->parameters()[1].add_(1e-6);
  EXPECT_NE(hash_parameters(*model.module), before);
}

}  // namespace
}  // namespace trireme
