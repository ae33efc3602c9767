#include "dist/world.h"

#include <sstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "tests/dist/elastic_job.h"
#include "tests/dist/ranks.h"
#include "tests/dist/worlds.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"
#include "tests/train/alone.h"

namespace trireme::dist {
namespace {

/// What rank `rank` holds: other values on each, small enough to be exact in every type.
torch::Tensor values_of(Rank rank, torch::ScalarType type, std::vector<std::int64_t> shape = {3, 5}) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return (torch::arange(count).remainder(4) + static_cast<std::int64_t>(rank) + 1).to(type).reshape(shape);
}

torch::Tensor sum_of(std::uint32_t ranks, torch::ScalarType type, std::vector<std::int64_t> shape = {3, 5}) {
  torch::Tensor sum = values_of(0, torch::kFloat64, shape);
  for (Rank rank = 1; rank < ranks; ++rank) sum += values_of(rank, torch::kFloat64, shape);
  return sum.to(type);
}

ReduceOptions by(ReduceOp op) { return {.op = op, .compression = {}, .name = {}}; }

TEST(World, KnowsRanksAndLocalRanks) {
  const collective::Ranks ranks(3);
  std::vector<std::pair<Rank, std::uint32_t>> places(3);
  const auto problems = ranks.run([&](Rank rank) {
    collective::Communicator communicator(*ranks.endpoints[rank], ranks.options(rank));
    World world(communicator, rank == 1 ? "left" : "right");
    EXPECT_EQ(world.rank(), rank);
    EXPECT_EQ(world.size(), 3u);
    EXPECT_EQ(world.chief(), rank == 0);
    places[rank] = {world.local_rank(), world.local_size()};
    world.finish();
  });
  for (const std::string& problem : problems) EXPECT_EQ(problem, "");
  EXPECT_EQ(places, (std::vector<std::pair<Rank, std::uint32_t>>{{0, 2}, {0, 1}, {1, 2}}));
}

TEST(World, ReducesEveryTypeThatCanBeAdded) {
  for (const std::uint32_t size : {1u, 2u, 3u}) {
    run_worlds(size, [size](World& world) {
      for (const auto type : {torch::kFloat32, torch::kFloat64, torch::kFloat16, torch::kBFloat16, torch::kInt8,
                              torch::kUInt8, torch::kInt16, torch::kInt32, torch::kInt64}) {
        const torch::Tensor mine = values_of(world.rank(), type);
        const torch::Tensor sum = world.all_reduce(mine, by(ReduceOp::kSum));
        EXPECT_TRUE(torch::equal(sum, sum_of(size, type))) << c10::toString(type);
        EXPECT_TRUE(torch::equal(mine, values_of(world.rank(), type))) << "the input stays";
        const torch::Tensor mean = world.all_reduce(mine);
        const torch::Tensor expected = torch::isFloatingType(type)
                                           ? sum_of(size, torch::kFloat64).div(static_cast<double>(size)).to(type)
                                           : sum_of(size, type).div(static_cast<std::int64_t>(size), "trunc");
        EXPECT_TRUE(torch::allclose(mean.to(torch::kFloat64), expected.to(torch::kFloat64), 1e-6))
            << c10::toString(type);
        EXPECT_TRUE(torch::equal(world.all_reduce(mine, by(ReduceOp::kMax)), values_of(size - 1, type)));
        EXPECT_TRUE(torch::equal(world.all_reduce(mine, by(ReduceOp::kMin)), values_of(0, type)));
      }
    });
  }
}

TEST(World, RefusesTypesThatHaveNoSum) {
  run_worlds(2, [](World& world) {
    EXPECT_FAILS(world.all_reduce(torch::ones({2}, torch::kBool)), InvalidArgument, "Bool", "convert it first");
    EXPECT_FAILS(world.all_reduce(torch::ones({2}, torch::kComplexFloat)), InvalidArgument, "ComplexFloat");
    EXPECT_FAILS(world.all_reduce(torch::Tensor()), InvalidArgument, "not defined");
    EXPECT_EQ(world.average(1.0), 1.0) << "and goes on";
  });
}

TEST(World, ReducesAnyShapeAndLayoutInPlace) {
  run_worlds(2, [](World& world) {
    torch::Tensor whole = values_of(world.rank(), torch::kFloat32, {4, 6});
    const torch::Tensor before = whole.clone();
    torch::Tensor transposed = whole.t().slice(0, 1, 4);  // every row of three columns, in no order of memory
    world.all_reduce_(transposed, by(ReduceOp::kSum));
    EXPECT_TRUE(torch::equal(transposed, sum_of(2, torch::kFloat32, {4, 6}).t().slice(0, 1, 4)));
    EXPECT_TRUE(torch::equal(whole.slice(1, 4), before.slice(1, 4))) << "nothing else is touched";

    torch::Tensor number = torch::tensor(static_cast<float>(world.rank()));
    void* const memory = number.data_ptr();
    world.all_reduce_(number);
    EXPECT_EQ(number.item<float>(), 0.5f);
    EXPECT_EQ(number.data_ptr(), memory);

    EXPECT_EQ(world.all_reduce(torch::empty({0, 3})).sizes(), (std::vector<std::int64_t>{0, 3}));
    torch::Tensor weight = torch::ones({2}, torch::requires_grad());
    world.all_reduce_(weight, by(ReduceOp::kSum));
    EXPECT_EQ(weight[0].item<float>(), 2);
    EXPECT_TRUE(weight.requires_grad() && weight.is_leaf());
  });
}

TEST(World, ReducesInTheBackground) {
  run_worlds(2, [](World& world) {
    std::vector<Handle> handles;
    for (int i = 0; i < 8; ++i) {
      handles.push_back(
          world.all_reduce_async(torch::full({1000}, static_cast<float>(i) * (world.rank() + 1)), by(ReduceOp::kSum)));
    }
    torch::Tensor in_place = torch::ones({10});
    Handle last = world.all_reduce_async_(in_place, by(ReduceOp::kSum));
    world.all_reduce_async(torch::ones({100}));  // nobody waits for it
    for (int i = 7; i >= 0; --i) {
      EXPECT_EQ(handles[static_cast<std::size_t>(i)].wait()[999].item<float>(), static_cast<float>(3 * i));
      EXPECT_TRUE(handles[static_cast<std::size_t>(i)].poll());
    }
    EXPECT_TRUE(last.wait().is_same(in_place));
    EXPECT_EQ(in_place[9].item<float>(), 2);
    EXPECT_EQ(last.wait()[9].item<float>(), 2) << "as often as asked";
  });
}

TEST(World, ReducesSeveralTensorsAsOneMessageForEachType) {
  run_worlds(2, [](World& world) {
    const auto before = world.communicator().traffic().operations;
    const auto of = [&](auto type, std::vector<std::int64_t> shape) { return values_of(world.rank(), type, shape); };
    const std::vector<torch::Tensor> mine{of(torch::kFloat32, {2, 2}), of(torch::kInt64, {3}), of(torch::kFloat32, {0}),
                                          of(torch::kFloat32, {5}).t()};
    const auto sums = world.all_reduce(mine, by(ReduceOp::kSum));
    EXPECT_EQ(world.communicator().traffic().operations - before, 4u) << "two messages, each announced";
    EXPECT_TRUE(torch::equal(sums[0], sum_of(2, torch::kFloat32, {2, 2})));
    EXPECT_TRUE(torch::equal(sums[1], sum_of(2, torch::kInt64, {3})));
    EXPECT_EQ(sums[2].numel(), 0);
    EXPECT_TRUE(torch::equal(sums[3], sum_of(2, torch::kFloat32, {5})));
    world.all_reduce_(mine, by(ReduceOp::kSum));
    for (std::size_t i = 0; i < mine.size(); ++i) EXPECT_TRUE(torch::equal(mine[i], sums[i]));
  });
}

TEST(World, CompressesWithinTheCodecsError) {
  for (const std::string codec : {"fp16", "bf16", "int8", "1bit", "topk:1", "randomk:1"}) {
    const codec::Spec spec = codec::parse_spec(codec);
    run_worlds(3, [&](World& world) {
      const torch::Tensor mine = torch::linspace(-1, 1, 2000) * static_cast<double>(world.rank() + 1);
      const torch::Tensor mean = world.all_reduce(mine, {.op = ReduceOp::kAverage, .compression = spec, .name = {}});
      const double allowed = codec == "1bit" ? 2 : codec == "int8" ? 0.03 : 0.02;
      EXPECT_LT((mean - torch::linspace(-1, 1, 2000) * 2).abs().max().item<double>(), allowed) << codec;
      const torch::Tensor everywhere = world.all_gather(mean.unsqueeze(0));
      EXPECT_TRUE(torch::equal(everywhere[0], everywhere[2])) << codec << ": the same bits on all ranks";
    });
  }
  run_worlds(2, [](World& world) {
    const ReduceOptions int8{.op = ReduceOp::kMax, .compression = codec::parse_spec("int8"), .name = {}};
    EXPECT_FAILS(world.all_reduce(torch::ones({2}), int8), InvalidArgument, "only sums and averages");
    EXPECT_FAILS(world.all_reduce(torch::ones({2}, torch::kInt64), int8), InvalidArgument, "only float32");
  });
}

TEST(World, GathersRowsOfAnyNumberAndType) {
  run_worlds(3, [](World& world) {
    const auto rank = static_cast<std::int64_t>(world.rank());
    const torch::Tensor all = world.all_gather(torch::full({rank, 2}, rank));  // none of rank 0
    EXPECT_TRUE(torch::equal(all, torch::tensor({{1, 1}, {2, 2}, {2, 2}}, torch::kInt64))) << all;
    EXPECT_TRUE(torch::equal(world.all_gather(torch::tensor(rank)), torch::arange(3)));
    EXPECT_TRUE(torch::equal(world.all_gather(torch::tensor({rank == 1}, torch::kBool)),
                             torch::tensor({false, true, false}, torch::kBool)));
    EXPECT_EQ(world.all_gather(torch::empty({0, 4})).sizes(), (std::vector<std::int64_t>{0, 4}));
  });
}

TEST(World, BroadcastsAnyTypeAndLayout) {
  run_worlds(3, [](World& world) {
    torch::Tensor tensor = values_of(world.rank(), torch::kComplexFloat, {3, 4}).t();
    EXPECT_TRUE(torch::equal(world.broadcast(tensor, 2), values_of(2, torch::kComplexFloat, {3, 4}).t()));
    EXPECT_TRUE(torch::equal(tensor, values_of(world.rank(), torch::kComplexFloat, {3, 4}).t()));
    world.broadcast_(tensor, 1);
    EXPECT_TRUE(torch::equal(tensor, values_of(1, torch::kComplexFloat, {3, 4}).t()));
    world.broadcast_(torch::empty({0}), 1);
    EXPECT_FAILS(world.broadcast(tensor, 3), InvalidArgument, "there are 3 ranks");
  });
}

TEST(World, AllToAllSendsRowsToEveryRank) {
  run_worlds(3, [](World& world) {
    const auto rank = static_cast<std::int64_t>(world.rank());
    // Rank r sends r rows to rank 0, none to rank 1, and 2 to rank 2, all of them (r, i).
    const torch::Tensor mine = torch::stack({torch::full({rank + 2}, rank), torch::arange(rank + 2)}, 1);
    const World::Received received = world.all_to_all(mine, {rank, 0, 2});
    const std::vector<std::vector<std::int64_t>> rows{{0, 1, 2}, {0, 0, 0}, {2, 2, 2}};
    EXPECT_EQ(received.rows, rows[world.rank()]);
    const std::vector<torch::Tensor> expected{
        torch::tensor({{1, 0}, {2, 0}, {2, 1}}, torch::kInt64), torch::empty({0, 2}, torch::kInt64),
        torch::tensor({{0, 0}, {0, 1}, {1, 1}, {1, 2}, {2, 2}, {2, 3}}, torch::kInt64)};
    EXPECT_TRUE(torch::equal(received.tensor, expected[world.rank()])) << received.tensor;
    EXPECT_TRUE(torch::equal(world.all_to_all(torch::arange(3) + 10 * rank).tensor, torch::arange(3) * 10 + rank));
    EXPECT_FAILS(world.all_to_all(torch::arange(4)), InvalidArgument, "4 rows cannot be dealt to 3 ranks");
  });
}

TEST(World, AveragesMetricsByWeight) {
  run_worlds(2, [](World& world) {
    const bool first = world.rank() == 0;
    const auto means = world.average({{"loss", first ? 1.0 : 4.0}, {"accuracy", first ? 0.5 : 0.8}}, first ? 10 : 20);
    EXPECT_DOUBLE_EQ(means.at("loss"), 3);
    EXPECT_DOUBLE_EQ(means.at("accuracy"), 0.7);
  });
}

TEST(World, MismatchNamesTheRanksAndTheirCalls) {
  run_worlds(2, [](World& world) {
    const bool first = world.rank() == 0;
    EXPECT_FAILS(world.all_reduce(torch::ones({first ? 2 : 3})), InvalidArgument,
                 "rank 0 wants all_reduce average of 2", "rank 1 wants all_reduce average of 3");
  });
  run_worlds(2, [](World& world) {
    const ReduceOptions named{.op = ReduceOp::kSum, .compression = {}, .name = world.rank() == 0 ? "loss" : "accuracy"};
    EXPECT_FAILS(world.all_reduce(torch::ones({2}), named), InvalidArgument, "'loss'", "'accuracy'");
  });
  run_worlds(2, [](World& world) {
    if (world.rank() == 0) {
      EXPECT_FAILS(world.broadcast(torch::ones({2})), InvalidArgument, "broadcast of 2", "all_gather");
    } else {
      EXPECT_FAILS(world.all_gather(torch::ones({2})), InvalidArgument, "broadcast of 2", "all_gather");
    }
  });
}

TEST(World, JoinedRanksDoNotChangeResults) {
  for (const auto type : {torch::kFloat32, torch::kFloat64, torch::kFloat16, torch::kBFloat16, torch::kInt8,
                          torch::kUInt8, torch::kInt16, torch::kInt32, torch::kInt64}) {
    run_worlds(3, [&](World& world) {
      if (world.rank() != 1) {
        const torch::Tensor mine = values_of(world.rank(), type);
        const torch::Tensor others = values_of(world.rank() == 0 ? 2 : 0, type);
        EXPECT_TRUE(torch::equal(world.all_reduce(mine, by(ReduceOp::kSum)), mine + others));
        EXPECT_TRUE(torch::equal(world.all_reduce(-mine, by(ReduceOp::kMax)), torch::max(-mine, -others)));
        EXPECT_TRUE(torch::equal(world.all_reduce(mine, by(ReduceOp::kMin)), torch::min(mine, others)));
        EXPECT_TRUE(torch::equal(world.all_reduce(mine, by(ReduceOp::kProduct)), mine * others));
        const torch::Tensor mean = world.all_reduce(mine).to(torch::kFloat64);
        const torch::Tensor expected = (mine + others).to(torch::kFloat64) / 2;
        EXPECT_LT((mean - expected).abs().max().item<double>(), torch::isFloatingType(type) ? 0.05 : 0.51);
      }
      EXPECT_EQ(world.join(), 2u) << "the highest of those that joined last";
    });
  }
}

TEST(World, JoinedRanksTakePartInOtherOperations) {
  for (const auto transport : {net::Transport::kAuto, net::Transport::kTcp}) {
    run_worlds(
        3,
        [](World& world) {
          const auto rank = static_cast<std::int64_t>(world.rank());
          if (rank < 2) {
            world.barrier();
            EXPECT_TRUE(
                torch::equal(world.all_gather(torch::full({rank + 1}, rank)), torch::tensor({0, 1, 1}, torch::kInt64)));
            EXPECT_TRUE(torch::equal(world.broadcast(torch::full({2}, rank), 1), torch::full({2}, 1)));
            EXPECT_FAILS(world.broadcast(torch::ones({2}), 2), InvalidArgument, "rank 2", "has joined");
            const auto received = world.all_to_all(torch::arange(3), {1, 1, 1});
            EXPECT_EQ(received.rows, (std::vector<std::int64_t>{1, 1, 0}));
            for (const std::string codec : {"fp16", "int8", "1bit", "topk:1", "randomk:0.5"}) {
              const ReduceOptions options{
                  .op = ReduceOp::kAverage, .compression = codec::parse_spec(codec), .name = codec};
              const torch::Tensor mean = world.all_reduce(torch::full({100}, static_cast<float>(rank + 1)), options);
              EXPECT_NEAR(mean.max().item<float>(), 1.5, 0.02) << codec;
            }
            Handle handle = world.all_reduce_async(torch::ones({5}));
            EXPECT_EQ(handle.wait()[4].item<float>(), 1);
            EXPECT_EQ(world.average(rank == 0 ? 2.0 : 4.0, 1), 3.0);
            if (rank == 0) world.all_reduce(torch::ones({1000}));
            if (rank == 1) {
              EXPECT_EQ(world.all_reduce(torch::full({1000}, 3.0f))[0].item<float>(), 2);
            }
          }
          EXPECT_EQ(world.join(), 1u);
          EXPECT_EQ(world.all_reduce(torch::ones({2}), by(ReduceOp::kSum))[0].item<float>(), 3) << "all are back";
          if (rank == 0) world.barrier();
          EXPECT_EQ(world.join(), 0u) << "a second time";
        },
        transport);
  }
}

std::vector<nlohmann::json> rows_in(const std::filesystem::path& file) {
  std::vector<nlohmann::json> rows;
  std::istringstream text(read_file(file));
  for (std::string line; std::getline(text, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

TEST(World, AllRanksStopAfterTheSameStep) {
  const TempFolder folder;
  ElasticJob job(3, folder.path());
  std::vector<Step> stopped_after(3, 0);
  job.run([&](std::unique_ptr<Job> worker) {
    World world(std::move(worker));
    Step step = 0;
    while (!world.should_stop()) {
      if (++step == 5 && world.rank() == 1) world.job()->session().membership().request_stop("enough");
    }
    stopped_after[world.rank()] = step;
    world.report({{"loss", 0.5}}, step);
    world.finish();
  });
  EXPECT_GE(stopped_after[0], 5u);
  EXPECT_EQ(stopped_after, std::vector<Step>(3, stopped_after[0]));
  const auto result = nlohmann::json::parse(read_file(folder / "result.json"));
  EXPECT_EQ(result.at("steps"), stopped_after[0]);
  EXPECT_EQ(result.at("stopped_because"), "asked to stop");
  EXPECT_EQ(result.at("metrics").at("loss"), 0.5);
}

TEST(World, ReportsReachTheMasterAndTheFilesOfTheRun) {
  const TempFolder folder;
  folder.write("metrics.jsonl", "{\"step\":10,\"loss\":4}\n{\"step\":20,\"loss\":3}\n");  // of an earlier launch
  ElasticJob job(2, folder.path());
  job.run([&](std::unique_ptr<Job> worker) {
    World world(std::move(worker));
    const double mine = 1.0 + world.rank();
    for (const Step step : {20u, 30u, 30u}) world.report({{"loss", mine}, {"accuracy", 0.25}}, step);
    EXPECT_FAILS(world.report({{"step", 1}}, 40), InvalidArgument, "'step'");
    world.job()->session().membership().flush();
    world.barrier();
    EXPECT_EQ(job.status().averages, (std::map<std::string, double>{{"accuracy", 0.25}, {"loss", 1}}));
    EXPECT_EQ(job.status().now.step, 30u);
    world.finish();
  });
  const auto rows = rows_in(folder / "metrics.jsonl");
  ASSERT_EQ(rows.size(), 3u);
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i].at("step"), 10 * (i + 1));
  EXPECT_EQ(rows[1].at("loss"), 1) << "the chief's, of the step that was made again";
  EXPECT_EQ(rows[2].at("accuracy"), 0.25);
  EXPECT_EQ(rows[2].at("kind"), "train");
  EXPECT_GT(rows[2].at("time"), 0);
  std::string curves;
  for (const auto& file : std::filesystem::directory_iterator(folder / "tensorboard")) curves += read_file(file.path());
  EXPECT_THAT(curves, ::testing::AllOf(::testing::HasSubstr("train/loss"), ::testing::HasSubstr("train/accuracy")));
}

TEST(World, WhoWaitsTellsTheMasterInWhatAndForWhom) {
  const TempFolder folder;
  ElasticJob job(2, folder.path());
  job.run([&](std::unique_ptr<Job> worker) {
    World world(std::move(worker));
    world.barrier();
    if (world.rank() == 1) {
      cluster::Activity activity;
      EXPECT_TRUE(eventually([&] {
        activity = job.status().workers.at(0).activity;
        return activity.workers == std::vector<Rank>{1};
      })) << activity.operation;
      EXPECT_THAT(activity.operation, ::testing::HasSubstr("of 3 F32 'late'"));
      EXPECT_EQ(activity.what, "wait");
    }
    world.all_reduce(torch::ones({3}), {.name = "late"});
    world.finish();
  });
}

TEST(World, SingleProcessReducesToItsOwnValues) {
  const auto before = std::filesystem::current_path();
  const TempFolder folder;
  std::filesystem::current_path(folder.path());
  {
    World world(std::make_unique<Job>(std::make_unique<JobSession>(std::nullopt)));
    EXPECT_EQ(world.size(), 1u);
    EXPECT_EQ(world.all_reduce(torch::full({3}, 7.0f))[2].item<float>(), 7);
    EXPECT_EQ(world.all_gather(torch::ones({2})).numel(), 2);
    EXPECT_EQ(world.all_to_all(torch::ones({2})).rows, std::vector<std::int64_t>{2});
    EXPECT_EQ(world.join(), 0u);
    world.finish();
  }
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace trireme::dist
