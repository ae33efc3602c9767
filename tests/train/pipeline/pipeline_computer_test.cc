#include "train/pipeline/pipeline_computer.h"

#include <fmt/format.h>

#include "base/error.h"
#include "tests/support/exhaustive.h"
#include "tests/support/expect_fails.h"
#include "tests/train/pipeline/testing.h"

namespace trireme::parallel {
namespace {

using plan::ScheduleKind;

std::shared_ptr<const LayerList> list_of(const Subject& subject) {
  torch::manual_seed(7);
  return std::make_shared<const LayerList>(subject.layers());
}

PipelineOptions options_for(const LayerList& list, ScheduleKind kind, std::uint32_t ranks, std::uint32_t lanes) {
  const std::uint32_t chunks = plan::usual_chunks(kind);
  PipelineOptions pipeline;
  pipeline.schedule = plan::make_schedule({.kind = kind, .ranks = ranks, .micro_batches = lanes, .chunks = chunks});
  pipeline.stages = cut_stages(list, ranks * chunks);
  return pipeline;
}

std::string text_of(ScheduleKind kind, std::uint32_t ranks, std::uint32_t lanes) {
  return fmt::format("{} on {} ranks, {} lanes", plan::name_of(kind), ranks, lanes);
}

/// Every schedule on every number of ranks gives the bits of one process.
void expect_all_same(const Subject& subject, const TrainOptions& options, bool recompute = false) {
  const auto list = list_of(subject);
  using Shapes = std::vector<std::pair<std::uint32_t, Lane>>;
  const Shapes shapes = exhaustive() ? Shapes{{1, 3}, {2, 1}, {2, 5}, {3, 2}, {3, 5}, {4, 7}, {4, 1}, {6, 4}}
                                     : Shapes{{2, 5}, {3, 2}, {4, 7}};
  for (const auto& [ranks, lanes] : shapes) {
    const std::uint64_t batch = 3 * lanes - 1;  // the last lane has fewer samples
    const StepOutcome whole = compute_whole(subject, list, lanes, batch, options);
    for (const ScheduleKind kind : plan::kScheduleKinds) {
      if (ranks * plan::usual_chunks(kind) > list->size()) continue;
      PipelineOptions pipeline = options_for(*list, kind, ranks, lanes);
      pipeline.recompute = recompute;
      expect_same_bits(compute_pipeline(subject, list, pipeline, batch, options), whole, text_of(kind, ranks, lanes));
    }
  }
}

TEST(PipelineComputer, Gpt_HasTheBitsOfOneProcess) {
  const Subject subject = gpt_subject();
  expect_all_same(subject, options_of(subject));
}

TEST(PipelineComputer, ResNet_HasTheBitsOfOneProcess) {
  const Subject subject = resnet_subject();
  expect_all_same(subject, options_of(subject));
}

TEST(PipelineComputer, Recomputation_HasTheSameBits) {
  for (const Subject& subject : {gpt_subject(), resnet_subject()}) {
    expect_all_same(subject, options_of(subject), /*recompute=*/true);
  }
}

TEST(PipelineComputer, Bf16_HasTheBitsOfOneProcess) {
  for (const Subject& subject : {gpt_subject(), resnet_subject()}) {
    TrainOptions options = options_of(subject);
    options.precision = Precision::kBf16;
    const auto list = list_of(subject);
    const StepOutcome whole = compute_whole(subject, list, 4, 12, options);
    const StepOutcome fp32 = compute_whole(subject, list, 4, 12, options_of(subject));
    EXPECT_FALSE(torch::equal(whole.gradients.begin()->second, fp32.gradients.begin()->second));
    for (const ScheduleKind kind : {ScheduleKind::k1F1B, ScheduleKind::kZbV}) {
      const PipelineOptions pipeline = options_for(*list, kind, 2, 4);
      expect_same_bits(compute_pipeline(subject, list, pipeline, 12, options), whole, text_of(kind, 2, 4));
    }
  }
}

TEST(PipelineComputer, LanesWithoutSamples_AreZeros) {
  for (const Subject& subject : {gpt_subject(), resnet_subject()}) {
    const TrainOptions options = options_of(subject);
    const auto list = list_of(subject);
    for (const std::uint64_t batch : {31u, 21u}) {  // of 64 samples: the last batch has 2, or 1, for five lanes
      const Step last = 64 / batch;
      const StepOutcome whole = compute_whole(subject, list, 5, batch, options, last);
      EXPECT_EQ(whole.samples, 64 % batch);
      for (const ScheduleKind kind : plan::kScheduleKinds) {
        const PipelineOptions pipeline = options_for(*list, kind, 2, 5);
        expect_same_bits(compute_pipeline(subject, list, pipeline, batch, options, last), whole, text_of(kind, 2, 5));
      }
    }
  }
}

TEST(PipelineComputer, StagesCutByHand_AndASkipConnection) {
  const auto linear = [](const std::string& name) -> Layer {
    return {.name = name, .make = [name](torch::nn::Module& root, const LayerPlace&) {
              auto fc = register_at(root, name, torch::nn::Linear(192, 192));
              return on_x([fc](const torch::Tensor& x) mutable { return torch::tanh(fc(x.flatten(1))); });
            }};
  };
  const Layer keep{.name = "keep", .make = [](torch::nn::Module& root, const LayerPlace&) -> LayerRun {
                     auto fc = register_at(root, "keep", torch::nn::Linear(192, 192));
                     return [fc](Activations a) mutable {
                       a["skip"] = a["x"] = fc(a["x"].flatten(1));
                       return a;
                     };
                   }};
  const Layer join{.name = "join", .make = [](torch::nn::Module& root, const LayerPlace&) -> LayerRun {
                     auto fc = register_at(root, "join", torch::nn::Linear(192, 5));
                     return [fc](Activations a) mutable {
                       return Activations{{"x", fc(a.at("x") * a.at("skip") + a.at("skip"))}};
                     };
                   }};
  Subject subject = resnet_subject();
  subject.layers = [=] { return LayerList({keep, linear("a"), linear("b"), linear("c"), join}); };
  const auto list = list_of(subject);
  const StepOutcome whole = compute_whole(subject, list, 3, 9, options_of(subject));
  for (const ScheduleKind kind : {ScheduleKind::kGpipe, ScheduleKind::kZbH1}) {  // foreign modules: nothing is deferred
    PipelineOptions pipeline = options_for(*list, kind, 3, 3);
    pipeline.stages = cut_stages(*list, parse_stage_sizes("1,3,1"));
    expect_same_bits(compute_pipeline(subject, list, pipeline, 9, options_of(subject)), whole, text_of(kind, 3, 3));
  }
}

TEST(PipelineComputer, SeveralTiesBetweenTheSameStages) {
  const auto tie = [](const std::string& name) -> Tie {
    return {.parameter = name, .layers = {"first", "last"}, .make = [name](torch::nn::Module& root, const LayerPlace&) {
              root.register_parameter(name, torch::randn({5, 5}));
            }};
  };
  const Layer first{
      .name = "first", .make = [](torch::nn::Module& root, const LayerPlace&) {
        auto fc = register_at(root, "fc", torch::nn::Linear(192, 5));
        const torch::Tensor a = parameter_at(root, "a"), b = parameter_at(root, "b");
        return on_x([=](const torch::Tensor& x) mutable { return torch::tanh(fc(x.flatten(1)).mm(a)).mm(b); });
      }};
  const Layer last{.name = "last", .make = [](torch::nn::Module& root, const LayerPlace&) {
                     const torch::Tensor a = parameter_at(root, "a"), b = parameter_at(root, "b");
                     return on_x([=](const torch::Tensor& x) { return torch::tanh(x.mm(b)).mm(a) + x; });
                   }};
  Subject subject = resnet_subject();
  subject.layers = [=] { return LayerList({first, last}, {tie("a"), tie("b")}); };
  const auto list = list_of(subject);
  const StepOutcome whole = compute_whole(subject, list, 3, 9, options_of(subject));
  for (const ScheduleKind kind : {ScheduleKind::kGpipe, ScheduleKind::k1F1B, ScheduleKind::kZbH1}) {
    const PipelineOptions pipeline = options_for(*list, kind, 2, 3);
    expect_same_bits(compute_pipeline(subject, list, pipeline, 9, options_of(subject)), whole, text_of(kind, 2, 3));
  }
}

TEST(PipelineComputer, TiedCopies_GetTheOwnersNewValues) {
  const Subject subject = gpt_subject();
  const auto list = list_of(subject);
  const PipelineOptions pipeline = options_for(*list, ScheduleKind::k1F1B, 3, 2);
  const TrainOptions options = options_of(subject);
  std::vector<std::shared_ptr<const MadeLayers>> made;
  for (Rank rank = 0; rank < 3; ++rank) made.push_back(make_stages(list, pipeline.stages, pipeline.schedule, rank));
  collective::expect_ranks(3, {}, [&](collective::Communicator& ranks) {
    PipelineComputer computer(made[ranks.rank()], pipeline, options, ranks);
    const torch::NoGradGuard no_grad;
    if (ranks.rank() == 2) parameter_at(*computer.module(), "wte.weight").fill_(4.5f);
    computer.share_tied_values();
    if (ranks.rank() == 0) {
      EXPECT_EQ(parameter_at(*computer.module(), "wte.weight").min().item<float>(), 4.5f);
    }
    const bool owns = std::ranges::count(computer.parameters(), std::string("wte.weight"), &NamedParameter::name) > 0;
    EXPECT_EQ(owns, ranks.rank() == 2);
  });
}

TEST(PipelineComputer, Evaluation_BeforeTraining_GivesTheOutputsOfTheWhole) {
  const Subject subject = gpt_subject();
  const auto list = list_of(subject);
  const Model whole = whole_model(list);
  whole.module->eval();
  std::vector<Batch> batches;
  for (const std::vector<std::uint64_t>& indices : {std::vector<std::uint64_t>{0, 1, 2}, {3, 4}, {5, 6, 7}, {8}}) {
    batches.push_back(read_samples(*subject.samples, indices));
  }
  const TrainOptions options = options_of(subject);
  for (const ScheduleKind kind : {ScheduleKind::k1F1B, ScheduleKind::kZbV}) {
    const PipelineOptions pipeline = options_for(*list, kind, 2, 2);
    std::vector<std::shared_ptr<const MadeLayers>> made;
    for (Rank rank = 0; rank < 2; ++rank) made.push_back(make_stages(list, pipeline.stages, pipeline.schedule, rank));
    collective::expect_ranks(2, {}, [&](collective::Communicator& ranks) {
      PipelineComputer computer(made[ranks.rank()], pipeline, options, ranks);
      computer.module()->eval();
      const std::vector<Outcome> outcomes = computer.evaluate(batches, subject.task);
      EXPECT_EQ(outcomes.size(), computer.has_last_stage() ? batches.size() : 0);
      const torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < outcomes.size(); ++i) {
        EXPECT_TRUE(torch::equal(outcomes[i].loss, subject.task.compute(whole, batches[i]).loss));
      }
    });
  }
}

TEST(PipelineComputer, HoldsAsManyMicroBatchesAsTheFormulaSays) {
  const Subject subject = gpt_subject();
  const auto list = list_of(subject);
  const TrainOptions options = options_of(subject);
  const PipelineOptions pipeline = options_for(*list, ScheduleKind::k1F1B, 3, 5);
  std::vector<std::shared_ptr<const MadeLayers>> made;
  for (Rank rank = 0; rank < 3; ++rank) made.push_back(make_stages(list, pipeline.stages, pipeline.schedule, rank));
  collective::expect_ranks(3, {}, [&](collective::Communicator& ranks) {
    PipelineComputer computer(made[ranks.rank()], pipeline, options, ranks);
    KeptGradients kept(computer.parameters(), 0);
    computer.compute(work_of(*subject.samples, 0, 5, 10), kept);
    EXPECT_EQ(computer.counts().peak_activations[ranks.rank()], 3 - ranks.rank());
  });
}

/// Runs ranks that need not agree; returns what each threw.
std::vector<std::string> problems_of(const Subject& subject, std::uint32_t size,
                                     const std::function<PipelineOptions(Rank, const LayerList&)>& pipeline_of,
                                     const std::function<TrainOptions(Rank)>& train_options,
                                     const std::function<void(Rank, PipelineComputer&)>& body) {
  const auto list = list_of(subject);
  const collective::Ranks ranks(size);
  std::vector<std::shared_ptr<const MadeLayers>> made;
  for (Rank rank = 0; rank < size; ++rank) {
    const PipelineOptions pipeline = pipeline_of(rank, *list);
    made.push_back(make_stages(list, pipeline.stages, pipeline.schedule, rank));
  }
  return ranks.run([&](Rank rank) {
    collective::Communicator communicator(*ranks.endpoints[rank], ranks.options(rank, {.deadline = 10s}));
    const TrainOptions options = train_options(rank);
    PipelineComputer computer(made[rank], pipeline_of(rank, *list), options, communicator);
    body(rank, computer);
  });
}

TEST(PipelineComputer, RanksThatDisagree_AreBothNamed) {
  const Subject subject = gpt_subject();
  const auto problems = problems_of(
      subject, 2,
      [](Rank rank, const LayerList& list) {
        return options_for(list, rank == 0 ? ScheduleKind::k1F1B : ScheduleKind::kGpipe, 2, 3);
      },
      [&](Rank) { return options_of(subject); }, [](Rank, PipelineComputer&) {});
  for (const std::string& problem : problems) {
    EXPECT_NE(problem.find("disagree about the schedule"), std::string::npos) << problem;
    EXPECT_NE(problem.find("rank 1 has"), std::string::npos) << problem;
  }
}

TEST(PipelineComputer, ARankThatGivesUp_EndsTheStepOnAll) {
  const Subject subject = gpt_subject();
  const auto problems = problems_of(
      subject, 3, [](Rank, const LayerList& list) { return options_for(list, ScheduleKind::k1F1B, 3, 6); },
      [&](Rank rank) {
        TrainOptions options = options_of(subject);
        if (rank == 2) {
          options.task.outcome = [](const torch::Tensor&, const Batch&) -> Outcome {
            return {.loss = torch::tensor(std::nan(""))};
          };
        }
        return options;
      },
      [&](Rank, PipelineComputer& computer) {
        KeptGradients kept(computer.parameters(), 0);
        computer.compute(work_of(*subject.samples, 4, 6, 12), kept);
      });
  EXPECT_NE(problems[2].find("the loss is nan at step 4, lane 0"), std::string::npos) << problems[2];
  for (const Rank rank : {0u, 1u}) EXPECT_NE(problems[rank].find("has left"), std::string::npos) << problems[rank];
}

TEST(PipelineComputer, WhatCannotBe_IsRefusedWithTheReason) {
  const Subject subject = gpt_subject();
  const auto refused = [&](const std::function<void(TrainOptions&)>& change) {
    return problems_of(
        subject, 1, [](Rank, const LayerList& list) { return options_for(list, ScheduleKind::k1F1B, 1, 2); },
        [&](Rank) {
          TrainOptions options = options_of(subject);
          change(options);
          return options;
        },
        [](Rank, PipelineComputer&) {})[0];
  };
  EXPECT_NE(refused([](TrainOptions& o) { o.accumulate = 2; }).find("2 times as many lanes"), std::string::npos);
  const std::string task =
      refused([](TrainOptions& o) { o.task = Task([](const Model&, const Batch&) { return Outcome{}; }); });
  EXPECT_NE(task.find("in two halves"), std::string::npos) << task;
}

TEST(StageCut, ByCostAndByHand) {
  torch::manual_seed(1);
  const LayerList list = models::gpt({.layers = 4, .heads = 2, .width = 8, .context = 6, .vocabulary = 13});
  EXPECT_EQ(cut_stages(list, 1), (std::vector<LayerRange>{{0, 6}}));
  EXPECT_EQ(cut_stages(list, parse_stage_sizes("1,4,1")), (std::vector<LayerRange>{{0, 1}, {1, 5}, {5, 6}}));
  EXPECT_FAILS(cut_stages(list, 7), InvalidArgument, "6 layers", "1 to 6");
  EXPECT_FAILS(cut_stages(list, parse_stage_sizes("2,2")), InvalidArgument, "4 together", "has 6");
  EXPECT_FAILS(cut_stages(list, parse_stage_sizes("6,0")), InvalidArgument, "no layers");
  EXPECT_FAILS(parse_stage_sizes("3,x"), InvalidArgument, "'3,x'", "3,5,4");
}

}  // namespace
}  // namespace trireme::parallel
