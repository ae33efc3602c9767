// GPT-2 124M in a loop of one's own: what bench/gpt measures to see what DistributedOptimizer adds to it.
//
//   gpt_loop plain|distributed STEPS [DEVICE]
//
// Alone, or as one of several ranks: trireme run -w 2 -- gpt_loop distributed 60. Prints, as JSON, the median step
// time.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <torch/optim/adamw.h>
#include <torch/torch.h>

#include "trireme/dist.h"
#include "trireme/fused.h"
#include "trireme/model.h"
#include "trireme/open.h"
#include "trireme/trireme.h"

#include "tensor/autocast.h"
#include "tensor/device/device.h"

namespace {

constexpr std::int64_t kBatch = 32;  // of all ranks
constexpr std::int64_t kLength = 1024;
constexpr std::int64_t kVocabulary = 50257;
constexpr double kLargestNorm = 1;

struct Training {
  trireme::Model model;
  torch::optim::AdamW optimizer;
  torch::Tensor tokens;

  void backward() const {
    torch::Tensor loss;
    {
      const trireme::AutocastScope autocast(trireme::Precision::kBf16, tokens.device());
      const torch::Tensor logits = model.forward(tokens.narrow(1, 0, kLength));
      loss = trireme::cross_entropy(logits.flatten(0, 1), tokens.narrow(1, 1, kLength).flatten());
    }
    loss.backward();
  }
};

template <typename Step>
double median_seconds(int steps, const Step& step, torch::Device device) {
  std::vector<double> seconds;
  for (int i = 0; i < steps; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    step();
    torch::cuda::synchronize(device.index());
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  seconds.erase(seconds.begin(), seconds.begin() + steps / 3);
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string mode = argc > 1 ? argv[1] : "plain";
  const int steps = argc > 2 ? std::atoi(argv[2]) : 60;
  const auto world = trireme::dist::init();
  const torch::Device device = trireme::pick_device(argc > 3 ? argv[3] : "cuda", world->local_rank());
  torch::manual_seed(1);
  const trireme::data::Schema schema{
      {.name = "tokens", .dtype = trireme::DType::kI32, .shape = {kLength + 1}, .classes = {kVocabulary}}};
  trireme::Model model = trireme::make_model("gpt2", schema, kVocabulary);
  model.module->to(device);
  Training training{
      .model = model,
      .optimizer = torch::optim::AdamW(model.module->parameters(), torch::optim::AdamWOptions(3e-4).weight_decay(0.1)),
      .tokens = torch::randint(kVocabulary, {kBatch / world->size(), kLength + 1},
                               torch::TensorOptions().dtype(torch::kInt64).device(device))};
  double seconds = 0;
  if (mode == "plain") {
    seconds = median_seconds(
        steps,
        [&] {
          training.backward();
          torch::nn::utils::clip_grad_norm_(model.module->parameters(), kLargestNorm);
          training.optimizer.step();
          training.optimizer.zero_grad();
        },
        device);
  } else {
    trireme::dist::DistributedOptimizer optimizer(*world, training.optimizer, model.module->named_parameters());
    seconds = median_seconds(
        steps,
        [&] {
          training.backward();
          optimizer.clip_norm(kLargestNorm);
          optimizer.step();
          optimizer.zero_grad();
        },
        device);
  }
  if (world->rank() == 0) {
    fmt::print("{{\"mode\": \"loop {}\", \"ranks\": {}, \"ms\": {:.2f}, \"tokens_per_s\": {:.0f}}}\n", mode,
               world->size(), 1e3 * seconds, static_cast<double>(kBatch * kLength) / seconds);
  }
  world->finish();
} catch (const std::exception& problem) {
  std::fprintf(stderr, "gpt_loop: %s\n", problem.what());
  return 1;
}
