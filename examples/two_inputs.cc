// A task of one's own, with two inputs and two losses: two views of the same thing should have codes near each other,
// and the code should tell what it is.
//
//   ./two_inputs                                          alone
//   trireme run --strategy allreduce -w 2 -- ./two_inputs

#include <trireme/trireme.h>

#include <cstdio>

namespace data = trireme::data;
namespace F = torch::nn::functional;

namespace {

constexpr std::int64_t kClasses = 5;
constexpr std::int64_t kNumbers = 16;

/// Each class has its pattern; a sample has two noisy views of it.
data::DatasetPtr pairs(std::uint64_t count, std::uint64_t seed) {
  trireme::RandomStream patterns(7);
  std::vector<double> pattern(kClasses * kNumbers);
  for (double& value : pattern) value = patterns.normal();
  trireme::RandomStream random(seed);
  std::vector<float> views[2];
  std::vector<std::int64_t> kinds;
  for (std::uint64_t i = 0; i < count; ++i) {
    kinds.push_back(static_cast<std::int64_t>(random.below(kClasses)));
    for (std::vector<float>& view : views) {
      for (std::int64_t k = 0; k < kNumbers; ++k) {
        view.push_back(
            static_cast<float>(pattern[static_cast<std::size_t>(kinds.back() * kNumbers + k)] + random.normal()));
      }
    }
  }
  return data::in_memory("pairs", {data::input("left", views[0], {kNumbers}),
                                   data::input("right", views[1], {kNumbers}), data::label("kind", kinds, kClasses)});
}

struct Net : torch::nn::Module {
  torch::nn::Linear encoder = register_module("encoder", torch::nn::Linear(kNumbers, 8));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(8, kClasses));
};

}  // namespace

int main() try {
  const auto job = trireme::Job::join();
  torch::manual_seed(1);
  const auto net = std::make_shared<Net>();

  const auto task = [net](const trireme::Batch& batch) {
    const auto left = torch::tanh(net->encoder(batch["left"])), right = torch::tanh(net->encoder(batch["right"]));
    const auto apart = (left - right).square().sum(1);  // samples
    const auto logits = net->head(left);
    const auto loss = F::cross_entropy(logits, batch["kind"]) + 0.1 * apart.mean();
    const auto count = static_cast<double>(batch.size());
    const auto right_ones = logits.argmax(1).eq(batch["kind"]).sum().item<double>();
    return trireme::Outcome{loss,
                            {{.name = "accuracy", .sum = right_ones, .count = count},
                             {.name = "apart", .sum = apart.sum().item<double>(), .count = count}}};
  };
  trireme::Trainer trainer(*job, net, {.batch = 50, .epochs = 10, .lr = 1e-2, .task = task});
  const auto result = trainer.fit(pairs(2000, 1), pairs(400, 2));

  if (!result.test) return 0;  // not the chief
  std::printf("test accuracy %.1f %%, views %.3f apart\n", 100 * result.test->metric("accuracy"),
              result.test->metric("apart"));
} catch (const std::exception& problem) {
  std::fprintf(stderr, "two_inputs: %s\n", problem.what());
  return 1;
}
