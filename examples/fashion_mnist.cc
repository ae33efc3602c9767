// A program of your own, on as many processes as you like:
//
//   ./fashion_mnist                              alone
//   trireme run -w 4 -s 2 -- ./fashion_mnist     four workers, two parameter servers
//   trireme run --strategy allreduce --checkpoint-every 100 --out runs/mine -- ./fashion_mnist
//   trireme resume runs/mine                     after Ctrl-C, or when all of it was killed
//
// fashion_mnist [folder of the images]

#include <trireme/trireme.h>

#include <cstdio>

struct Net : torch::nn::Module {
  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(1, 16, 5));
  torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(16 * 12 * 12, 64));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(64, 10));

  torch::Tensor forward(const torch::Tensor& images) {  // batch × 1 × 28 × 28 -> batch × 10
    const auto features = torch::max_pool2d(torch::relu(conv(images)), 2).flatten(1);
    return out(torch::relu(hidden(features)));
  }
};

int main(int argc, char** argv) try {
  const auto job = trireme::Job::join();
  const auto data = argc > 1 ? trireme::data::load_fashion_mnist(argv[1]) : trireme::data::load_fashion_mnist();

  torch::manual_seed(1);
  trireme::Trainer trainer(*job, std::make_shared<Net>(), {.batch = 64, .epochs = 1, .lr = 1e-3});
  const auto result = trainer.fit(data.train, data.test);

  if (result.test) std::printf("test accuracy %.2f %%\n", 100 * result.test->metric("accuracy"));  // on the chief
} catch (const std::exception& problem) {
  std::fprintf(stderr, "fashion_mnist: %s\n", problem.what());
  return 1;
}
