// ResNet-20 on CIFAR-10, with augmentation:
//
//   trireme data get cifar10 && trireme run --strategy allreduce -w 2 -- ./resnet data/cifar10 20000
//   ./resnet                                              on generated images, for a look
//
// resnet [FOLDER [STEPS]]

#include <trireme/trireme.h>

#include <cstdio>
#include <cstdlib>

namespace data = trireme::data;

namespace {

/// Pixels of mean 0 and deviation 1 in each channel, as the training images have them.
data::Split scaled(const data::Split& images) {
  const auto scale = data::measure(*images.train, "image");
  return {.train = data::normalize(images.train, "image", scale), .test = data::normalize(images.test, "image", scale)};
}

/// In each epoch another view of every image: moved by up to four pixels, and mirrored or not.
data::DatasetPtr augmented(data::DatasetPtr images) {
  return data::random_mirror(data::random_shift(std::move(images), "image", 4), "image");
}

}  // namespace

int main(int argc, char** argv) try {
  const auto job = trireme::Job::join();
  const bool real = argc > 1;
  const auto images = real ? scaled(data::load_cifar10_png(argv[1]))
                           : data::make_synthetic({.train_samples = 512, .test_samples = 200});
  const trireme::Step steps = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 60;

  torch::manual_seed(1);
  const trireme::Task task = trireme::classification({.label_smoothing = 0.05});
  const data::Schema& schema = images.train->schema();
  const trireme::Model model = trireme::make_model("resnet20", schema, task.outputs(schema));
  trireme::Trainer trainer(*job, model,
                           {.batch = real ? 128u : 32u,
                            .steps = steps,
                            .optimizer = {.rule = trireme::optim::Rule::kNesterov, .momentum = 0.9, .l2 = 5e-4},
                            .lr = 0.1,
                            .warmup = steps / 20,
                            .task = task,
                            .callbacks = {trireme::save_best("best.safetensors")}});
  const auto result = trainer.fit(real ? augmented(images.train) : images.train, images.test);
  if (result.test) std::printf("test accuracy %.2f %%\n", 100 * result.test->metric("accuracy"));  // on the chief
} catch (const std::exception& problem) {
  std::fprintf(stderr, "resnet: %s\n", problem.what());
  return 1;
}
