// Gradients that travel to the servers in a smaller form.

#include <cmath>
#include <memory>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "ps/client.h"
#include "ps/server.h"
#include "tests/support/secret.h"

namespace trireme::ps {
namespace {

constexpr std::size_t kValues = 20'000;
constexpr Step kSteps = 200;

struct Outcome {
  std::vector<float> parameters;
  Client::Traffic traffic;
};

/// One worker, plain SGD at rate 1 on gradients that are the same in each step: parameter i ends at -steps * gradient i
/// if nothing is lost.
Outcome train(const codec::Spec& codec, net::Transport transport) {
  const Server server({.service = {.listener = {.name = "server", .secret = kSecret}}});
  net::EventLoop loop("test");
  Client client(
      loop,
      {.view = cluster::first_view(1, {server.address()}), .secret = kSecret, .transport = transport, .timeout = 20s});
  client.open({{"weight", kValues}, {"bias", 3}},
              {.update = {.rule = optim::Rule::kSgd}, .placement = {.max_chunk_bytes = 16u << 10}, .codec = codec});
  client.assign();
  client.pull();
  for (Step step = 0; step < kSteps; ++step) {
    RandomStream random(7);
    for (const std::uint32_t table : {0u, 1u}) {
      for (float& value : client.gradients(table)) value = static_cast<float>(random.uniform() - 0.5);
    }
    const std::uint32_t tables[] = {1, 0};
    client.push(tables, {.step = step, .lanes = {0, 1}, .samples = 1, .lr = 1});
    client.finish();
  }
  const auto values = client.parameters(0);
  return {{values.begin(), values.end()}, client.traffic()};
}

class PushCodec : public ::testing::TestWithParam<const char*> {};

TEST_P(PushCodec, LosesNothingAndGivesTheSameBitsOverShmAndTcp) {
  const codec::Spec spec = codec::parse_spec(GetParam());
  const Outcome shared = train(spec, net::Transport::kShm);
  const Outcome network = train(spec, net::Transport::kTcp);
  EXPECT_EQ(shared.parameters, network.parameters);

  const Outcome exact = train({}, net::Transport::kShm);
  double error = 0;
  double size = 0;
  for (std::size_t i = 0; i < kValues; ++i) {
    error += std::abs(shared.parameters[i] - exact.parameters[i]);
    size += std::abs(exact.parameters[i]);
  }
  // What is late at the end: all of it for a value that is sent once in 100 steps, in the mean half of that.
  const bool sparse = codec::is_sparse(spec);
  EXPECT_LT(error / size, sparse ? 0.6 : 0.01);
  EXPECT_GT(error, 0) << "it did travel in a smaller form";

  EXPECT_EQ(exact.traffic.pushed_bytes, exact.traffic.gradient_bytes);
  EXPECT_EQ(shared.traffic.gradient_bytes, exact.traffic.gradient_bytes);
  const double ratio =
      static_cast<double>(shared.traffic.gradient_bytes) / static_cast<double>(shared.traffic.pushed_bytes);
  EXPECT_GT(ratio, sparse ? 40 : 1.99);
  EXPECT_GT(shared.traffic.encode_seconds, 0);
}

INSTANTIATE_TEST_SUITE_P(Each, PushCodec,
                         ::testing::Values("fp16", "bf16", "int8", "1bit", "topk:0.01", "randomk:0.01"),
                         [](const auto& each) {
                           std::string name = each.param;
                           name = name.substr(0, name.find(':'));
                           return name == "1bit" ? std::string("one_bit") : name;
                         });

TEST(PushCodec, WorkersMustUseTheSameCodec) {
  const Server server({.service = {.listener = {.name = "server", .secret = kSecret}}});
  net::EventLoop loop("test");
  const cluster::ViewInfo view = cluster::first_view(2, {server.address()});
  Client first(loop, {.member = 1, .view = view, .lanes = 2, .secret = kSecret});
  Client second(loop, {.member = 2, .view = view, .lanes = 2, .secret = kSecret});
  first.open({{"weight", 100}}, {.codec = codec::parse_spec("int8")});
  EXPECT_THROW(second.open({{"weight", 100}}, {.codec = codec::parse_spec("fp16")}), InvalidArgument);
}

}  // namespace
}  // namespace trireme::ps
