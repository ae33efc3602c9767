// A network whose matrices are divided among processes: each has a part of every one, and all compute every batch
// together. What it learns does not depend on their number, to the last bit:
//
//   ./tensor_parallel                            alone
//   trireme run -w 2 -s 0 -- ./tensor_parallel   two processes, each with half of the parameters
//   trireme run -w 4 -s 0 -- ./tensor_parallel   four
//
// tensor_parallel [steps]
#include <trireme/compute_threads.h>
#include <trireme/job.h>
#include <trireme/tensor_parallel.h>

#include <cstdio>
#include <cstdlib>

#include <torch/torch.h>

namespace tp = trireme::parallel;

constexpr std::int64_t kVocabulary = 997;  // need not divide
constexpr std::int64_t kWidth = 64;

/// Says which token follows: an embedding, a layer of four times its width, and the embedding again.
struct Net : torch::nn::Module {
  explicit Net(tp::TensorGroup& tensor_group)
      : group(tensor_group),
        tokens(register_module("tokens",
                               tp::VocabularyParallelEmbedding(group, torch::nn::Embedding(kVocabulary, kWidth)))),
        widen(register_module("widen", tp::ColumnParallelLinear(group, torch::nn::Linear(kWidth, 4 * kWidth)))),
        narrow(register_module("narrow", tp::RowParallelLinear(group, torch::nn::Linear(4 * kWidth, kWidth)))) {}

  torch::Tensor loss(const torch::Tensor& now, const torch::Tensor& next) {  // samples, samples -> one number
    torch::Tensor x = tokens->forward(now);                                  // samples × width, on every process
    tp::LaneTensors wide = widen->forward(tp::copy_to_lanes(group, x));      // each lane has its columns of it
    wide = tp::each_lane(wide, [](const auto& lane) { return torch::gelu(lane); });
    x = x + narrow->forward(tp::dropout(group, wide, 1, 4 * kWidth, 0.1));  // the lanes' products are summed
    return tp::vocabulary_cross_entropy(group, tokens->logits(tp::copy_to_lanes(group, x)), next, kVocabulary);
  }

  tp::TensorGroup& group;
  tp::VocabularyParallelEmbedding tokens;
  tp::ColumnParallelLinear widen;
  tp::RowParallelLinear narrow;
};

int main(int argc, char** argv) try {
  const auto job = trireme::Job::join();
  const int steps = argc > 1 ? std::atoi(argv[1]) : 200;
  trireme::set_compute_threads(1);  // sums are divided among threads, and their last bits depend on it
  torch::manual_seed(1);            // the same everywhere: initial values, and dropout

  tp::TensorGroup group(job->ranks(), 4);  // four tensor lanes, on 1, 2 or 4 processes
  Net net(group);
  torch::optim::Adam adam(net.parameters(), torch::optim::AdamOptions(3e-3));
  for (int step = 0; step < steps; ++step) {
    const torch::Tensor now = torch::randint(kVocabulary, {128}, torch::kInt64);
    const torch::Tensor loss = net.loss(now, (now * 3 + 1).remainder(kVocabulary));
    adam.zero_grad();
    loss.backward();
    adam.step();
    if (job->chief() && (step + 1) % 50 == 0) std::printf("step %d: loss %.4f\n", step + 1, loss.item<double>());
  }

  double sum = 0;
  for (const auto& [name, whole] : tp::gather_parameters(group, net))
    sum += whole.to(torch::kFloat64).sum().item<double>();
  std::int64_t held = 0;
  for (const torch::Tensor& parameter : net.parameters()) held += parameter.numel();
  if (job->chief()) {
    std::printf("%ld numbers here; the sum of all is %.17g; %.0f bytes exchanged in a step\n", held, sum,
                static_cast<double>(group.traffic().bytes) / steps);
  }
  job->leave();
} catch (const std::exception& problem) {
  std::fprintf(stderr, "tensor_parallel: %s\n", problem.what());
  return 1;
}
