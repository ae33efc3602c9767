// A training loop of your own, made distributed by a few lines (those that say world or dist):
//
//   ./own_loop                              alone
//   trireme run -w 2 -s 0 -- ./own_loop     two processes; no parameter servers
#include <trireme/trireme.h>

#include <cstdio>

namespace dist = trireme::dist;
using trireme::data::Dataset;

struct Net : torch::nn::Module {
  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(1, 16, 5));
  torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(16 * 12 * 12, 64));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(64, 10));

  torch::Tensor forward(const torch::Tensor& images) {  // batch × 1 × 28 × 28 -> batch × 10
    return out(torch::relu(hidden(torch::max_pool2d(torch::relu(conv(images)), 2).flatten(1))));
  }
};

struct Batch {
  Batch(const Dataset& dataset, const std::vector<std::uint64_t>& indices) {
    dataset.read(indices, content);
    const auto count = static_cast<std::int64_t>(content.size());
    images = torch::from_blob(content.features.data(), {count, 1, 28, 28});
    labels = torch::from_blob(content.labels.data(), {count}, torch::kInt64);
  }
  trireme::data::Batch content;
  torch::Tensor images, labels;
};

/// Each rank looks at every size-th sample; the mean is over all.
double accuracy_of(Net& net, const Dataset& test, dist::World& world) {
  torch::NoGradGuard no_grad;
  std::vector<std::uint64_t> mine;
  for (std::uint64_t i = world.rank(); i < test.size(); i += world.size()) mine.push_back(i);
  const Batch batch(test, mine);
  const double right = net.forward(batch.images).argmax(1).eq(batch.labels).to(torch::kFloat64).mean().item<double>();
  return world.average(right, static_cast<double>(mine.size()), "accuracy");
}

int main() try {
  const auto world = dist::init();
  torch::set_num_threads(1);
  const auto data = trireme::data::load_fashion_mnist();
  // The global batch of 64 is cut into a lane for each rank.
  const trireme::data::Sampler sampler({.samples = data.train->size(), .batch = 64, .lanes = world->size(), .seed = 1});

  const auto net = std::make_shared<Net>();
  dist::broadcast_parameters(*world, *net);
  torch::optim::Adam adam(net->parameters(), torch::optim::AdamOptions(1e-3));
  dist::DistributedOptimizer optimizer(*world, adam, net->named_parameters());

  for (trireme::Step step = 0; step < sampler.steps_per_epoch(); ++step) {
    const Batch batch(*data.train, sampler.indices(step, world->rank()));
    optimizer.zero_grad();
    const torch::Tensor loss = torch::nn::functional::cross_entropy(net->forward(batch.images), batch.labels);
    loss.backward();
    optimizer.step();
    if (step % 100 != 99) continue;
    const double mean = world->average(loss.item<double>(), static_cast<double>(batch.content.size()), "loss");
    if (world->chief()) std::printf("step %4lu: loss %.4f\n", step + 1, mean);
  }
  const double accuracy = accuracy_of(*net, *data.test, *world);
  if (world->chief()) std::printf("test accuracy %.2f %%\n", 100 * accuracy);
  world->finish();
} catch (const std::exception& problem) {
  std::fprintf(stderr, "own_loop: %s\n", problem.what());
  return 1;
}
