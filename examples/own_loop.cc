// A training loop of your own, made distributed, and made to survive, by a few lines (those that say world or dist or
// state). Kill any of its processes, all of them, or change their number:
//
//   ./own_loop                                     alone
//   trireme run -w 3 -s 0 --out runs/own -- ./own_loop     three processes, no parameter servers
//   trireme scale runs/own 4                       one more, up to a lane each
//   trireme resume runs/own -w 2                   after all of them died
//
// own_loop [folder of the images [steps]]
#include <trireme/trireme.h>

#include <cstdio>
#include <cstdlib>

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

/// Each rank looks at every size-th sample; the mean is over all.
double accuracy_of(Net& net, const Dataset& test, dist::World& world) {
  torch::NoGradGuard no_grad;
  std::vector<std::uint64_t> mine;
  for (std::uint64_t i = world.rank(); i < test.size(); i += world.size()) mine.push_back(i);
  const trireme::Batch batch = trireme::read_samples(test, mine);
  const torch::Tensor right = net.forward(batch["image"]).argmax(1).eq(batch["label"]).to(torch::kFloat64);
  return world.average(right.mean().item<double>(), static_cast<double>(mine.size()), "accuracy");
}

int main(int argc, char** argv) try {
  const auto world = dist::init();
  trireme::set_compute_threads(1);
  torch::manual_seed(1);
  const auto data = argc > 1 ? trireme::data::load_fashion_mnist(argv[1]) : trireme::data::load_fashion_mnist();

  const auto net = std::make_shared<Net>();
  torch::optim::Adam adam(net->parameters(), torch::optim::AdamOptions(1e-3));
  dist::DistributedOptimizer optimizer(*world, adam, net->named_parameters());

  // The global batch of 64 is cut into four lanes, whoever computes them: so there can be up to four workers.
  dist::State state(*world, {.samples = data.train->size(), .batch = 64, .lanes = 4, .seed = 1});
  std::uint64_t samples = 0;
  state.add(*net).add(optimizer).add("samples", samples).save_every(50);
  const trireme::Step steps = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : state.sampler().steps_per_epoch();

  const bool done = dist::elastic(*world, state, [&] {
    while (state.step() < steps) {
      double loss_sum = 0, count = 0;
      for (const dist::LaneBatch& lane : state.lanes()) {
        const trireme::Batch batch = trireme::read_samples(*data.train, lane.indices);
        const torch::Tensor loss = torch::nn::functional::cross_entropy(net->forward(batch["image"]), batch["label"]);
        loss.backward();
        loss_sum += loss.item<double>() * static_cast<double>(lane.indices.size());
        count += static_cast<double>(lane.indices.size());
      }
      samples += state.sampler().batch_size(state.step());
      optimizer.clip_norm(1.0);
      optimizer.step();
      if (state.step() % 20 != 0) continue;
      const double mean = world->average(count > 0 ? loss_sum / count : 0, count, "loss");
      world->report({{"loss", mean}}, state.step());  // for the progress line, trireme status, metrics and TensorBoard
    }
    const double accuracy = accuracy_of(*net, *data.test, *world);
    world->report({{"test_accuracy", accuracy}}, state.step());
    if (world->chief()) std::printf("test accuracy %.2f %%\n", 100 * accuracy);
  });
  if (done && world->chief()) {
    std::printf("parameters %s after %lu steps, %lu samples\n", trireme::hash_parameters(*net).c_str(), state.step(),
                samples);
  }
  world->finish();
} catch (const std::exception& problem) {
  std::fprintf(stderr, "own_loop: %s\n", problem.what());
  return 1;
}
