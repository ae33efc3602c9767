#include <gmock/gmock.h>

#include "tests/support/expect_fails.h"
#include "tests/tensor_parallel/tensor_ranks.h"

namespace trireme::parallel {
namespace {

/// Modules of a test, under names.
struct Net : torch::nn::Module {
  template <typename Child>
  Child add(const std::string& name, Child child) {
    return register_module(name, std::move(child));
  }
};

/// Makes modules with the same initial values on every rank.
template <typename Make>
auto made(Make make) {
  const std::lock_guard lock(making_modules());
  torch::manual_seed(7);
  return make();
}

torch::Tensor numbers(at::IntArrayRef shape, std::uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return torch::randn(shape, generator);
}

class TensorLayers : public ::testing::Test {
 protected:
  /// Alone with 4 lanes, 2 ranks and 4 ranks give the same bits; and 1 lane nearly the same numbers.
  static void expect_layout_does_not_matter(const Compute& compute, double close = 1e-4) {
    const Computed whole = alone(4, compute);
    ASSERT_FALSE(whole.tensors.empty());
    for (const std::uint32_t size : {2, 4}) expect_same(whole, size, 4, compute);
    const Computed plain = alone(1, compute);
    for (const auto& [name, tensor] : plain.tensors) {
      const torch::Tensor& other = whole.tensors.at(name);
      ASSERT_EQ(tensor.sizes(), other.sizes()) << name;
      EXPECT_LT((tensor - other).abs().max().item<double>(), close) << name;
    }
  }
};

TEST_F(TensorLayers, MlpInMegatronsArrangement_SameBitsForAnyNumberOfRanks) {
  expect_layout_does_not_matter([](TensorGroup& group) {
    Net net;
    auto [widen, narrow] = made([&] {
      return std::pair{net.add("widen", ColumnParallelLinear(group, torch::nn::Linear(24, 92))),
                       net.add("narrow", RowParallelLinear(group, torch::nn::Linear(92, 24)))};
    });
    const torch::Tensor x = numbers({3, 5, 24}, 1).requires_grad_();
    const torch::Tensor y = narrow(each_lane(widen(copy_to_lanes(group, x)), [](auto h) { return torch::gelu(h); }));
    y.square().sum().backward();
    Computed computed{{{"y", y.detach()}, {"dx", x.grad()}}, {}};
    add_gradients(computed, net);
    return computed;
  });
}

TEST_F(TensorLayers, SequenceParallelBlock_SameBitsForAnyNumberOfRanks) {
  for (const std::int64_t length : {8, 7, 3}) {
    expect_layout_does_not_matter([length](TensorGroup& group) {
      Net net;
      auto [norm, widen, narrow] = made([&] {
        return std::tuple{
            net.add("norm", SequenceLayerNorm(group, torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})))),
            net.add("widen", ColumnParallelLinear(group, torch::nn::Linear(16, 64))),
            net.add("narrow", RowParallelLinear(group, torch::nn::Linear(64, 16)))};
      });
      const torch::Tensor table = numbers({9, 16}, 2).requires_grad_();
      const torch::Tensor x = numbers({3, length, 16}, 1).requires_grad_();
      torch::Tensor part = add_positions(group, take_part(group, x, 1), table, length);
      EXPECT_EQ(group.whole_length(part.size(1), "length"), length);
      const LaneTensors normed = gather_to_lanes(group, norm(part, 1, length), 1, length);
      part = part + narrow->forward_to_parts(each_lane(widen(normed), torch::tanh), 1);
      const torch::Tensor y = gather_parts(group, part, 1, length);
      y.square().sum().backward();
      Computed computed{{{"y", y.detach()}, {"dx", x.grad()}, {"d table", table.grad()}}, {}};
      add_gradients(computed, net);
      return computed;
    });
  }
}

TEST_F(TensorLayers, VocabularyThatDoesNotDivide_EmbeddingAndCrossEntropy) {
  for (const std::int64_t vocabulary : {17, 5, 64}) {
    expect_layout_does_not_matter([vocabulary](TensorGroup& group) {
      Net net;
      auto embedding = made(
          [&] { return net.add("wte", VocabularyParallelEmbedding(group, torch::nn::Embedding(vocabulary, 12))); });
      const torch::Tensor tokens = torch::arange(30).remainder(vocabulary).reshape({3, 10});
      const torch::Tensor x = embedding(tokens);
      torch::Tensor targets = tokens.reshape(-1).add(3).remainder(vocabulary);
      targets[4] = -100;
      const LaneTensors logits = embedding->logits(copy_to_lanes(group, x.reshape({30, 12})));
      const torch::Tensor loss = vocabulary_cross_entropy(group, logits, targets, vocabulary);
      loss.backward();
      Computed computed{{{"x", x.detach()}, {"loss", loss.detach().reshape(1)}}, {}};
      add_gradients(computed, net);
      if (group.plain()) {  // LibTorch's own
        Net twin;
        const torch::Tensor weight = embedding->weight.detach().clone().requires_grad_();
        const torch::Tensor rows = torch::embedding(weight, tokens).reshape({30, 12});
        const torch::Tensor expected = torch::cross_entropy_loss(rows.matmul(weight.t()), targets);
        expected.backward();
        EXPECT_TRUE(torch::allclose(expected, loss, 1e-5, 1e-6));
        EXPECT_TRUE(torch::allclose(weight.grad(), embedding->weight.grad(), 1e-4, 1e-6));
      }
      return computed;
    });
  }
}

TEST_F(TensorLayers, AttentionByHeads_SameBitsForAnyNumberOfRanks) {
  expect_layout_does_not_matter([](TensorGroup& group) {
    Net net;
    auto [qkv, project] = made([&] {
      return std::pair{net.add("qkv", ColumnParallelLinear(group, torch::nn::Linear(16, 48), 3)),
                       net.add("project", RowParallelLinear(group, torch::nn::Linear(16, 16)))};
    });
    const torch::Tensor x = numbers({2, 6, 16}, 1).requires_grad_();
    const torch::Tensor y = project(attention_by_heads(group, qkv(copy_to_lanes(group, x)), 4, /*causal=*/true));
    y.square().sum().backward();
    Computed computed{{{"y", y.detach()}, {"dx", x.grad()}}, {}};
    add_gradients(computed, net);
    return computed;
  });
}

TEST_F(TensorLayers, ConvolutionByOutputChannel_SameBitsForAnyNumberOfRanks) {
  expect_layout_does_not_matter([](TensorGroup& group) {
    Net net;
    auto conv = made([&] {
      return net.add("conv", ColumnParallelConv2d(
                                 group, torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 10, 3).stride(2).padding(1))));
    });
    const torch::Tensor x = numbers({2, 3, 8, 8}, 1).requires_grad_();
    const torch::Tensor y = join_lanes(group, conv(copy_to_lanes(group, x)), 1, 10);
    EXPECT_EQ(y.sizes(), at::IntArrayRef({2, 10, 4, 4}));
    y.square().sum().backward();
    Computed computed{{{"y", y.detach()}, {"dx", x.grad()}}, {}};
    add_gradients(computed, net);
    return computed;
  });
}

TEST_F(TensorLayers, Dropout_SameMaskForAnyNumberOfRanks) {
  const auto compute = [](TensorGroup& group) {
    group.seed(5);
    const torch::Tensor x = torch::ones({4, 10, 8});
    const torch::Tensor sequence = gather_parts(group, dropout(group, take_part(group, x, 1), 1, 10, 0.3), 1, 10);
    const LaneTensors lanes =
        dropout(group, split_part(group, take_part(group, torch::ones({5, 8}), 1), 1, 8), 1, 8, 0.3);
    const torch::Tensor again = gather_parts(group, dropout(group, take_part(group, x, 1), 1, 10, 0.3), 1, 10);
    EXPECT_FALSE(same_bits(sequence, again)) << "each call has its own mask";
    return Computed{{{"sequence", sequence}, {"lanes", join_lanes(group, lanes, 1, 8)}}, {}};
  };
  const Computed whole = alone(4, compute);
  EXPECT_NEAR(whole.tensors.at("sequence").eq(0).to(torch::kFloat32).mean().item<double>(), 0.3, 0.1);
  for (const std::uint32_t size : {2, 4}) expect_same(whole, size, 4, compute);
  expect_same(whole, 2, 2, compute);  // nor on the number of lanes
  expect_same(whole, 1, 1, compute);
}

TEST_F(TensorLayers, Bf16UnderAutocastLikeProducts_AreSummedIn32Bits) {
  const auto compute = [](TensorGroup& group) {
    LaneTensors lanes;
    for (Lane lane = group.mine().first; lane < group.mine().end(); ++lane) {
      lanes.push_back(numbers({4, 33}, lane).to(torch::kBFloat16));
    }
    return Computed{{{"sum", sum_lanes(group, lanes).to(torch::kFloat32)}}, {}};
  };
  const Computed whole = alone(8, compute);
  for (const std::uint32_t size : {2, 4, 8}) expect_same(whole, size, 8, compute);
}

TEST_F(TensorLayers, TwelveLanes_TwoThreeAndFourRanksAgree) {
  const Compute compute = [](TensorGroup& group) {
    Net net;
    auto [widen, narrow] = made([&] {
      return std::pair{net.add("widen", ColumnParallelLinear(group, torch::nn::Linear(8, 50))),
                       net.add("narrow", RowParallelLinear(group, torch::nn::Linear(50, 8)))};
    });
    const torch::Tensor y = narrow(widen(copy_to_lanes(group, numbers({4, 8}, 1))));
    y.sum().backward();
    Computed computed{{{"y", y.detach()}}, {}};
    add_gradients(computed, net);
    return computed;
  };
  const Computed whole = alone(12, compute);
  for (const std::uint32_t size : {2, 3, 4}) expect_same(whole, size, 12, compute);
}

TEST_F(TensorLayers, ImpossibleDivisionIsRefusedWithTheNearest) {
  EXPECT_FAILS(TensorGroup(0), InvalidArgument, "at least one");
  TensorGroup eight(8);
  EXPECT_FAILS(eight.check_divides(12, "heads"), InvalidArgument, "8 tensor lanes do not divide 12 heads: the nearest");
  EXPECT_FAILS(VocabularyParallelEmbedding(eight, torch::nn::Embedding(5, 2)), InvalidArgument, "the most are 5");
  EXPECT_FAILS(ColumnParallelConv2d(eight, torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 8, 3).groups(2))),
               InvalidArgument, "groups");
  collective::expect_ranks(2, {}, [](collective::Communicator& ranks) {
    EXPECT_FAILS(TensorGroup(ranks, 3), InvalidArgument, "the nearest is 2 lanes");
    EXPECT_EQ(TensorGroup(ranks).lanes(), 2);
  });
}

TEST_F(TensorLayers, RankThatCallsSomethingElse_IsNamedOnAllRanksWithTheLayer) {
  collective::expect_ranks(2, {}, [](collective::Communicator& ranks) {
    TensorGroup group(ranks);
    const torch::Tensor x = torch::ones({4, 4});
    try {
      if (ranks.rank() == 0) {
        sum_lanes(group, {x}, "h.0.attn.c_proj");
      } else {
        gather_parts(group, x, 0, 8, "head");
      }
      ADD_FAILURE() << "not refused on rank " << ranks.rank();
    } catch (const InvalidArgument& problem) {
      EXPECT_THAT(problem.what(), testing::HasSubstr(ranks.rank() == 0 ? "at 'h.0.attn.c_proj'" : "at 'head'"));
      EXPECT_THAT(problem.what(), testing::HasSubstr("all_gather"));
      EXPECT_THAT(problem.what(), testing::HasSubstr("all_reduce"));
    }
    EXPECT_EQ(sum_lanes(group, {x})[0][0].item<float>(), 2) << "the group stays usable";
  });
}

TEST_F(TensorLayers, PeerThatIsGoneInBackward_IsPeerLost) {
  collective::Ranks ranks(2);
  const auto problems = ranks.run([&](Rank rank) {
    auto communicator = std::make_unique<collective::Communicator>(*ranks.endpoints[rank], ranks.options(rank));
    TensorGroup group(*communicator);
    const torch::Tensor x = torch::ones({64, 64}).requires_grad_();
    const torch::Tensor y = sum_lanes(group, copy_to_lanes(group, x));
    if (rank == 1) return communicator.reset();
    EXPECT_THROW(y.sum().backward(), PeerLost);
  });
  EXPECT_EQ(problems, std::vector<std::string>(2));
}

TEST_F(TensorLayers, TrafficCountsWhatIsExchanged) {
  collective::expect_ranks(2, {}, [](collective::Communicator& ranks) {
    TensorGroup group(ranks, 4);
    const torch::Tensor x = torch::ones({10, 3}).requires_grad_();
    const torch::Tensor y = sum_lanes(group, copy_to_lanes(group, x));
    EXPECT_EQ(group.traffic().operations, 1);
    EXPECT_EQ(group.traffic().bytes, 2 * 4 * 30);
    y.sum().backward();
    EXPECT_EQ(group.traffic().operations, 2);
    gather_parts(group, take_part(group, x, 0), 0, 10);
    EXPECT_EQ(group.traffic().bytes, (2 * 2 + 1) * 4 * 30);
  });
}

}  // namespace
}  // namespace trireme::parallel
