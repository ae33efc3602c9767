// A GPT that learns to write as a text does, byte by byte:
//
//   ./gpt austen.txt                                      alone
//   trireme run --strategy allreduce -w 2 --out runs/austen -- ./gpt austen.txt 5000
//
// gpt FILE [STEPS [MODEL]]: gpt-tiny has two layers of 64, gpt-10m six of 384.

#include <trireme/trireme.h>

#include <cstdio>
#include <cstdlib>

namespace {

constexpr std::uint64_t kLength = 64;  // bytes that the model sees at a time

/// Continues `text` with the likeliest bytes.
std::string go_on(const trireme::Model& model, std::string text, int count) {
  const torch::NoGradGuard no_grad;
  model.module->eval();
  for (int i = 0; i < count; ++i) {
    const std::string seen = text.size() > kLength ? text.substr(text.size() - kLength) : text;
    std::vector<std::int64_t> bytes(seen.begin(), seen.end());
    for (std::int64_t& byte : bytes) byte &= 0xff;
    const torch::Tensor logits = model.forward(torch::tensor(bytes).unsqueeze(0))[0][-1];
    text += static_cast<char>(logits.argmax().item<std::int64_t>());
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) throw trireme::InvalidArgument("which text? gpt FILE [STEPS [MODEL]]");
  const auto job = trireme::Job::join();
  const auto windows = trireme::data::load_text({argv[1]}, {.length = kLength});
  const auto data = trireme::data::split_off_test(windows);  // every tenth window

  torch::manual_seed(1);
  const trireme::Task task = trireme::language_model();
  const auto& schema = windows->schema();
  const trireme::Model model = trireme::make_model(argc > 3 ? argv[3] : "gpt-tiny", schema, task.outputs(schema));
  const trireme::Step steps = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1000;
  trireme::Trainer trainer(*job, model,
                           {.batch = 32,
                            .steps = steps,
                            .optimizer = {.rule = trireme::optim::Rule::kAdamW},
                            .lr = 2e-3,
                            .warmup = steps / 20,
                            .evaluate_each_epoch = false});
  const auto result = trainer.fit(data.train, data.test);

  if (!result.test) return 0;                                                                   // not the chief
  std::printf("bits per byte %.3f on held-out text\n", result.test->metric("bits_per_token"));  // a byte is a token
  std::printf("%s\n", go_on(model, "It is a truth", 80).c_str());
} catch (const std::exception& problem) {
  std::fprintf(stderr, "gpt: %s\n", problem.what());
  return 1;
}
