#include <gtest/gtest.h>

#include "trireme/dist.h"

#include "base/error.h"
#include "tests/dist/worlds.h"
#include "tests/support/expect_fails.h"

namespace trireme::dist {
namespace {

using torch::nn::Linear;
using torch::nn::Sequential;
using torch::nn::Tanh;

/// Threads share torch's random generator: nets and data are made before they start.
Sequential make_net(std::uint64_t seed = 3) {
  torch::manual_seed(seed);
  return Sequential(Linear(4, 64), Tanh(), Linear(64, 64), Tanh(), Linear(64, 1));
}

std::vector<Sequential> make_nets(std::uint32_t count) {
  std::vector<Sequential> nets;
  for (std::uint32_t i = 0; i < count; ++i) nets.push_back(make_net());
  return nets;
}

/// A set of samples, of which rank r of n takes every n-th.
struct Samples {
  torch::Tensor x;
  torch::Tensor y;

  explicit Samples(std::int64_t count) {
    torch::manual_seed(5);
    x = torch::randn({count, 4});
    y = x.sum(1, true).sin();
  }

  torch::Tensor loss(Sequential& net, std::int64_t first = 0, std::int64_t step = 1) const {
    return torch::mse_loss(net->forward(x.slice(0, first, x.size(0), step)), y.slice(0, first, y.size(0), step));
  }

  torch::Tensor loss_of(Sequential& net, World& world) const { return loss(net, world.rank(), world.size()); }
};

double distance(const Sequential& a, const Sequential& b) {
  torch::NoGradGuard no_grad;
  double most = 0;
  for (std::size_t i = 0; i < a->parameters().size(); ++i) {
    most = std::max(most, (a->parameters()[i] - b->parameters()[i]).abs().max().item<double>());
  }
  return most;
}

/// One process with the whole batch.
Sequential train_alone(const Samples& samples, int steps) {
  Sequential net = make_net();
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < steps; ++step) {
    sgd.zero_grad();
    samples.loss(net).backward();
    sgd.step();
  }
  return net;
}

/// Ranks with a part of it each; `pass` is a step's backward passes.
std::vector<Sequential> train_ranks(
    std::uint32_t ranks, int steps, const DistributedOptimizerOptions& options,
    const std::function<void(Sequential& net, World& world, DistributedOptimizer& optimizer)>& pass) {
  std::vector<Sequential> nets = make_nets(ranks);
  run_worlds(ranks, [&](World& world) {
    Sequential& net = nets[world.rank()];
    torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    DistributedOptimizer optimizer(world, sgd, net->named_parameters(), options);
    for (int step = 0; step < steps; ++step) {
      optimizer.zero_grad();
      pass(net, world, optimizer);
      optimizer.step();
    }
  });
  return nets;
}

TEST(DistributedOptimizer, MatchesOneProcessWithTheWholeBatch) {
  const Samples samples(24);
  const Sequential alone = train_alone(samples, 10);
  for (const std::uint32_t ranks : {1u, 2u, 3u}) {
    for (const std::size_t piece_bytes : {std::size_t{64}, std::size_t{4} << 20}) {
      const auto nets = train_ranks(ranks, 10, {.piece_bytes = piece_bytes}, [&](Sequential& net, World& world, auto&) {
        samples.loss_of(net, world).backward();
      });
      for (const Sequential& net : nets) {
        EXPECT_LT(distance(net, alone), 1e-6) << ranks << " ranks";
        EXPECT_EQ(distance(net, nets.front()), 0);
      }
    }
  }
}

TEST(DistributedOptimizer, GradientsLeaveWhileBackwardStillRuns) {
  std::vector<Sequential> nets = make_nets(2);
  run_worlds(2, [&](World& world) {
    Sequential& net = nets[world.rank()];
    torch::optim::SGD sgd(net->parameters(), 0.1);
    DistributedOptimizer optimizer(world, sgd, net->named_parameters(), {.piece_bytes = 64});
    const auto before = optimizer.traffic().operations;
    torch::Tensor hidden = torch::tanh(net[0]->as<Linear>()->forward(torch::ones({1, 4})));
    bool left = false;
    hidden.register_hook([&](const torch::Tensor&) {  // the first layer is not differentiated yet
      const Deadline deadline = Deadline::in(20s);
      while (!left && !deadline.passed()) left = optimizer.traffic().operations > before + 1;
    });
    net[4]->as<Linear>()->forward(torch::tanh(net[2]->as<Linear>()->forward(hidden))).sum().backward();
    EXPECT_TRUE(left);
    optimizer.step();
  });
}

TEST(DistributedOptimizer, AddsUpTheGradientsOfSeveralPasses) {
  const Samples samples(24);
  const Sequential alone = train_alone(samples, 8);
  const auto nets = train_ranks(2, 8, {.accumulate = 3}, [&](Sequential& net, World& world, auto&) {
    for (int part = 0; part < 3; ++part) {
      (samples.loss(net, world.rank() + 2 * part, 6) / 3).backward();
      EXPECT_EQ(world.average(1.0), 1.0) << "others may use the world in between";
    }
  });
  EXPECT_LT(distance(nets[0], alone), 1e-6);
  EXPECT_EQ(distance(nets[0], nets[1]), 0);
}

TEST(DistributedOptimizer, RanksThatStartFromDifferentParametersAreWarned) {
  const Samples samples(8);
  const auto warnings = [&](bool differ, const std::function<void(World&, Sequential&)>& before_step) {
    std::vector<Sequential> nets = make_nets(2);
    if (differ) {
      torch::NoGradGuard no_grad;
      nets[1]->parameters().front().add_(1);
    }
    ::testing::internal::CaptureStderr();
    run_worlds(2, [&](World& world) {
      Sequential& net = nets[world.rank()];
      torch::optim::SGD sgd(net->parameters(), 0.1);
      DistributedOptimizer optimizer(world, sgd, net->named_parameters());
      before_step(world, net);
      for (int step = 0; step < 2; ++step) {
        samples.loss(net).backward();
        optimizer.step();
      }
    });
    const std::string log = ::testing::internal::GetCapturedStderr();
    int count = 0;
    for (std::size_t at = log.find("event=parameters_differ"); at != std::string::npos;
         at = log.find("event=parameters_differ", at + 1)) {
      ++count;
    }
    return count;
  };
  const auto nothing = [](World&, Sequential&) {};
  EXPECT_EQ(warnings(false, nothing), 0);
  EXPECT_EQ(warnings(true, nothing), 2) << "each rank once, not in every step";
  EXPECT_EQ(warnings(true, [](World& world, Sequential& net) { broadcast_parameters(world, *net, 1); }), 0);
}

TEST(DistributedOptimizer, TooManyPassesAreAnError) {
  const Samples samples(8);
  std::vector<Sequential> nets = make_nets(2);
  run_worlds(2, [&](World& world) {
    Sequential& net = nets[world.rank()];
    torch::optim::SGD sgd(net->parameters(), 0.1);
    DistributedOptimizer optimizer(world, sgd, net->named_parameters());
    samples.loss(net).backward();
    EXPECT_FAILS(samples.loss(net).backward(), InvalidArgument, "several backward passes", "accumulate");
    EXPECT_FAILS(optimizer.zero_grad(), InvalidArgument, "after step()");
  });
}

TEST(DistributedOptimizer, SynchronizedGradientsCanBeClipped) {
  const Samples samples(8);
  Sequential alone = make_net();
  torch::optim::SGD sgd_alone(alone->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < 4; ++step) {
    sgd_alone.zero_grad();
    samples.loss(alone).backward();
    torch::nn::utils::clip_grad_norm_(alone->parameters(), 0.05);
    sgd_alone.step();
  }
  const auto nets = train_ranks(2, 4, {}, [&](Sequential& net, World& world, DistributedOptimizer& optimizer) {
    samples.loss_of(net, world).backward();
    optimizer.synchronize();
    torch::nn::utils::clip_grad_norm_(net->parameters(), 0.05);
  });
  EXPECT_LT(distance(nets[0], alone), 1e-6);
}

TEST(DistributedOptimizer, TouchingGradientsOnTheirWayIsAnError) {
  const Samples samples(24);
  const Sequential alone = train_alone(samples, 4);
  const auto nets = train_ranks(2, 4, {}, [&](Sequential& net, World& world, auto&) {
    samples.loss_of(net, world).backward();
    const auto parameters = net->parameters();
    const torch::Tensor gradient = parameters[0].grad();
    const std::vector<std::function<void()>> touches{
        [&] { torch::nn::utils::clip_grad_norm_(parameters, 0.05); },
        [&] { torch::nn::utils::clip_grad_norm_(parameters.back(), 0.05); },  // a single number
        [&] { torch::nn::utils::clip_grad_norm_(parameters, 0.05, 0); },
        [&] { torch::nn::utils::clip_grad_value_(parameters, 0.05); },
        [&] { gradient.mul_(0.5); },
        [&] { gradient.data().mul_(0.5); },
        [&] { gradient.norm(); },
        [&] { gradient[0][0].item<float>(); },
        [&] { net->zero_grad(/*set_to_none=*/false); }};
    for (const auto& touch : touches) {
      EXPECT_FAILS(touch(), InvalidArgument, "optimizer.clip_norm(1.0)", "optimizer.synchronize()");
    }
  });
  EXPECT_EQ(distance(nets[0], nets[1]), 0);
  EXPECT_LT(distance(nets[0], alone), 1e-6) << "what was refused has changed nothing";
}

TEST(DistributedOptimizer, ReplacingAGradientOnItsWayIsAnError) {
  const Samples samples(8);
  std::vector<Sequential> nets = make_nets(2);
  run_worlds(2, [&](World& world) {
    Sequential& net = nets[world.rank()];
    torch::optim::SGD sgd(net->parameters(), 0.1);
    DistributedOptimizer optimizer(world, sgd, net->named_parameters());
    samples.loss_of(net, world).backward();
    net->parameters()[2].mutable_grad() = torch::zeros({64, 64});
    EXPECT_FAILS(optimizer.step(), InvalidArgument, "'2.weight' was replaced", "optimizer.synchronize()");
  });
}

TEST(DistributedOptimizer, ClipsTheNormOfTheMeanGradient) {
  const Samples samples(24);
  constexpr double kLargest = 0.05;
  Sequential alone = make_net();
  torch::optim::SGD sgd_alone(alone->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  std::vector<double> norms;
  for (int step = 0; step < 6; ++step) {
    sgd_alone.zero_grad();
    samples.loss(alone).backward();
    norms.push_back(torch::nn::utils::clip_grad_norm_(alone->parameters(), kLargest));
    sgd_alone.step();
  }
  EXPECT_GT(norms.front(), 2 * kLargest);
  for (const std::uint32_t ranks : {1u, 2u, 3u}) {
    std::vector<std::vector<double>> found(ranks);
    const auto nets =
        train_ranks(ranks, 6, {.piece_bytes = 64}, [&](Sequential& net, World& world, DistributedOptimizer& optimizer) {
          samples.loss_of(net, world).backward();
          found[world.rank()].push_back(optimizer.clip_norm(kLargest));
          const double clipped = optimizer.clip_norm(1000);
          EXPECT_NEAR(clipped, std::min(kLargest, found[world.rank()].back()), 1e-6)
              << "gradients are what they are now";
        });
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      EXPECT_LT(distance(nets[rank], alone), 1e-6);
      EXPECT_EQ(distance(nets[rank], nets[0]), 0);
      EXPECT_EQ(found[rank], found[0]) << "bit for bit";
    }
    for (std::size_t step = 0; step < norms.size(); ++step) EXPECT_NEAR(found[0][step], norms[step], 1e-5);
  }
}

TEST(DistributedOptimizer, ANormThatCannotBeClippedIsAnError) {
  run_worlds(2, [](World& world) {
    const torch::Tensor weight = torch::ones({2}, torch::requires_grad());
    NamedParameters named;
    named.insert("weight", weight);
    torch::optim::SGD sgd({weight}, 0.1);
    DistributedOptimizer optimizer(world, sgd, named);
    EXPECT_FAILS(optimizer.clip_norm(0), InvalidArgument, "above 0");
    EXPECT_FAILS(optimizer.clip_norm(NAN), InvalidArgument, "above 0");
    (weight.sum() * (world.rank() == 0 ? INFINITY : 1.0)).backward();
    EXPECT_FAILS(optimizer.clip_norm(1), InvalidArgument, "the norm of the gradients is inf");
  });
}

TEST(DistributedOptimizer, AParameterThatARankDidNotUseCountsAsZero) {
  std::vector<torch::Tensor> used{torch::zeros({3}, torch::requires_grad()), torch::zeros({3}, torch::requires_grad())};
  std::vector<torch::Tensor> by_one{torch::zeros({2}, torch::requires_grad()),
                                    torch::zeros({2}, torch::requires_grad())};
  std::vector<torch::Tensor> by_none{torch::zeros({4}, torch::requires_grad()),
                                     torch::zeros({4}, torch::requires_grad())};
  run_worlds(2, [&](World& world) {
    const Rank rank = world.rank();
    NamedParameters named;
    named.insert("used", used[rank]);
    named.insert("by_one", by_one[rank]);
    named.insert("by_none", by_none[rank]);
    torch::optim::SGD sgd({used[rank], by_one[rank], by_none[rank]}, 1.0);
    DistributedOptimizer optimizer(world, sgd, named, {.piece_bytes = 4});
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      torch::Tensor loss = (used[rank] * (rank + 1.0)).sum();
      if (rank == 1) loss = loss + (by_one[rank] * 4).sum();
      loss.backward();
      EXPECT_EQ(world.average(rank == 0 ? 1.0 : 3.0), 2.0) << "between backward and step";
      optimizer.step();
      EXPECT_TRUE(torch::equal(used[rank].grad(), torch::full({3}, 1.5f)));
      EXPECT_TRUE(torch::equal(by_one[rank].grad(), torch::full({2}, 2.0f)));
      EXPECT_TRUE(torch::equal(by_none[rank].grad(), torch::zeros({4})));
    }
    optimizer.zero_grad();
    optimizer.step();  // no backward at all
    EXPECT_TRUE(torch::equal(used[rank], torch::full({3}, -4.5f)));
    EXPECT_TRUE(torch::equal(by_one[rank], torch::full({2}, -6.0f)));
  });
}

TEST(DistributedOptimizer, ParametersOfSeveralTypesTravelTogether) {
  run_worlds(2, [](World& world) {
    NamedParameters named;
    std::vector<torch::Tensor> all;
    for (const auto type : {torch::kFloat64, torch::kFloat32, torch::kBFloat16, torch::kFloat16, torch::kFloat32}) {
      all.push_back(torch::zeros({5}, torch::TensorOptions(type).requires_grad(true)));
      named.insert(std::to_string(all.size()), all.back());
    }
    all.push_back(torch::zeros({0}, torch::requires_grad()));
    named.insert("empty", all.back());
    torch::optim::SGD sgd(all, 1.0);
    DistributedOptimizer optimizer(world, sgd, named, {.compression = codec::parse_spec("fp16"), .piece_bytes = 8});
    torch::Tensor loss = torch::zeros({});
    for (const torch::Tensor& each : all) loss = loss + each.to(torch::kFloat32).sum() * (world.rank() + 1.0);
    loss.backward();
    optimizer.step();
    for (const torch::Tensor& each : all) {
      EXPECT_TRUE(torch::equal(each.detach().to(torch::kFloat32), torch::full({each.numel()}, -1.5f)));
    }
  });
}

TEST(DistributedOptimizer, SparseGradientsBecomeDense) {
  run_worlds(2, [](World& world) {
    torch::nn::Embedding embedding(torch::nn::EmbeddingOptions(4, 2).sparse(true));
    torch::optim::SGD sgd(embedding->parameters(), 1.0);
    DistributedOptimizer optimizer(world, sgd, embedding->named_parameters());
    broadcast_parameters(world, *embedding);
    embedding->forward(torch::tensor({static_cast<std::int64_t>(world.rank())})).sum().backward();
    optimizer.step();
    EXPECT_TRUE(torch::equal(embedding->weight.grad(),
                             torch::tensor({{0.5, 0.5}, {0.5, 0.5}, {0., 0.}, {0., 0.}}, torch::kFloat32)));
  });
}

TEST(DistributedOptimizer, CompressedGradientsTrainAlmostAsWell) {
  const Samples samples(24);
  const auto loss_after = [&](const std::string& codec) {
    std::vector<Sequential> nets = make_nets(2);
    run_worlds(2, [&](World& world) {
      Sequential& net = nets[world.rank()];
      torch::optim::SGD sgd(net->parameters(), 0.02);  // momentum would not bear gradients that come late
      DistributedOptimizer optimizer(world, sgd, net->named_parameters(), {.compression = codec::parse_spec(codec)});
      for (int step = 0; step < 100; ++step) {
        optimizer.zero_grad();
        samples.loss_of(net, world).backward();
        optimizer.step();
      }
    });
    EXPECT_EQ(distance(nets[0], nets[1]), 0) << codec;
    return samples.loss(nets[0]).item<double>();
  };
  Sequential fresh = make_net();
  const double before = samples.loss(fresh).item<double>();
  const double plain = loss_after("none");
  EXPECT_LT(plain, 0.6 * before);
  for (const std::string codec : {"fp16", "bf16", "int8", "1bit", "topk:0.1", "randomk:0.1"}) {
    EXPECT_NEAR(loss_after(codec), plain, 0.1 * (before - plain)) << codec;
  }
}

TEST(DistributedOptimizer, RanksWithFewerBatchesJoin) {
  // Batches of rank r: 2 * r + 1. Those that are left make the mean; nobody waits for who is through.
  for (const std::string codec : {"none", "int8"}) {
    std::vector<torch::Tensor> weights;
    for (int rank = 0; rank < 3; ++rank) weights.push_back(torch::zeros({300}, torch::requires_grad()));
    run_worlds(3, [&](World& world) {
      const Rank rank = world.rank();
      torch::Tensor& weight = weights[rank];
      NamedParameters named;
      named.insert("weight", weight);
      torch::optim::SGD sgd({weight}, 1.0);
      DistributedOptimizer optimizer(world, sgd, named, {.compression = codec::parse_spec(codec), .piece_bytes = 64});
      for (Rank batch = 0; batch < 2 * rank + 1; ++batch) {
        optimizer.zero_grad();
        (weight * static_cast<double>(rank + 1)).sum().backward();
        optimizer.step();
        world.average(1.0);
      }
      const Rank last = world.join();
      EXPECT_EQ(last, 2u);
      broadcast_parameters(world, named, last);
    });
    // One step of all three (mean 2), two of ranks 1 and 2 (2.5), two of rank 2 alone (3).
    for (const torch::Tensor& weight : weights) {
      EXPECT_LT((weight + (2 + 2 * 2.5 + 2 * 3)).abs().max().item<double>(), codec == "none" ? 1e-5 : 0.1) << codec;
      EXPECT_TRUE(torch::equal(weight, weights[0]));
    }
  }
}

TEST(DistributedOptimizer, RefusesParametersThatWouldDiverge) {
  std::vector<Sequential> nets = make_nets(2);
  run_worlds(2, [&](World& world) {
    Sequential& net = nets[world.rank()];
    torch::optim::SGD sgd(net->parameters(), 0.1);
    NamedParameters some;
    some.insert("first", net->parameters()[0]);
    EXPECT_FAILS(DistributedOptimizer(world, sgd, some), InvalidArgument, "not among the named parameters");
    EXPECT_FAILS(DistributedOptimizer(world, sgd, net->named_parameters(), {.accumulate = 0}), InvalidArgument,
                 "accumulate");
    EXPECT_FAILS(DistributedOptimizer(world, sgd, net->named_parameters(), {.op = ReduceOp::kMax}), InvalidArgument,
                 "no gradient");
    NamedParameters other;
    for (const auto& item : net->named_parameters()) other.insert(item.key() + (world.rank() ? "'" : ""), item.value());
    EXPECT_FAILS(DistributedOptimizer(world, sgd, other), InvalidArgument, "do not agree", "6 parameters");
  });
}

TEST(DistributedOptimizer, ItsHooksDoNotOutliveIt) {
  run_worlds(2, [](World& world) {
    const torch::Tensor weight = torch::ones({2}, torch::requires_grad());
    NamedParameters named;
    named.insert("weight", weight);
    torch::optim::SGD sgd({weight}, 0.1);
    { DistributedOptimizer optimizer(world, sgd, named); }
    weight.sum().backward();
    weight.sum().backward();
    EXPECT_TRUE(torch::equal(weight.grad(), torch::full({2}, 2.0f)));
  });
}

TEST(BroadcastParameters, MakesAllRanksAlike) {
  std::vector<Sequential> nets;
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    nets.push_back(make_net(rank + 1));
    nets.back()->push_back(torch::nn::BatchNorm1d(1));
    torch::NoGradGuard no_grad;
    nets.back()->buffers()[0].fill_(static_cast<double>(rank));
    nets.back()->parameters()[0].set_requires_grad(rank % 2 == 0);
  }
  const torch::Tensor expected = nets[1]->parameters()[0].detach().clone();
  run_worlds(3, [&](World& world) { broadcast_parameters(world, *nets[world.rank()], 1); });
  for (const Sequential& net : nets) {
    EXPECT_EQ(distance(net, nets[1]), 0);
    EXPECT_TRUE(torch::equal(net->parameters()[0], expected));
    EXPECT_EQ(net->buffers()[0].item<float>(), 1);
  }
}

/// Trains rank 0 for some steps, tells all others, and lets everybody make one more: who got everything, and only they,
/// end with the same bits.
template <typename Optimizer, typename Options>
void expect_optimizer_travels(const Options& options, const Options& others) {
  const Samples samples(12);
  std::vector<Sequential> nets = make_nets(3);
  run_worlds(3, [&](World& world) {
    const Rank rank = world.rank();
    Optimizer optimizer(nets[rank]->parameters(), rank == 0 ? options : others);
    const auto step = [&] {
      optimizer.zero_grad();
      samples.loss(nets[rank]).backward();
      optimizer.step();
    };
    for (Rank i = 0; i < (rank == 0 ? 3u : rank - 1); ++i) step();  // rank 1 has no state yet, rank 2 one of its own
    broadcast_parameters(world, *nets[rank]);
    broadcast_optimizer_state(world, optimizer);
    for (int i = 0; i < 3; ++i) step();
  });
  EXPECT_EQ(distance(nets[0], nets[1]), 0);
  EXPECT_EQ(distance(nets[0], nets[2]), 0);
  EXPECT_GT(distance(nets[0], make_net()), 0);
}

TEST(BroadcastOptimizerState, WorksForTheOptimizersOfTorch) {
  using namespace torch::optim;  // NOLINT(google-build-using-namespace): ten names
  expect_optimizer_travels<SGD>(SGDOptions(0.1).momentum(0.9), SGDOptions(0.2).momentum(0.5));
  expect_optimizer_travels<Adam>(AdamOptions(0.01).amsgrad(true), AdamOptions(0.1).amsgrad(true));
  expect_optimizer_travels<AdamW>(AdamWOptions(0.01), AdamWOptions(0.1));
  expect_optimizer_travels<RMSprop>(RMSpropOptions(0.01).momentum(0.5), RMSpropOptions(0.1));
  expect_optimizer_travels<Adagrad>(AdagradOptions(0.05), AdagradOptions(0.1));
}

}  // namespace
}  // namespace trireme::dist
