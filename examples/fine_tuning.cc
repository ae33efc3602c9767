// Fine-tuning from safetensors: what a GPT learned of one text helps it with another, shorter one.
//
//   ./fine_tuning long.txt short.txt                      trains on the first, saves, starts the second from it
//   ./fine_tuning gpt2.safetensors tokens.bin             GPT-2 as it is published, on tokens of its vocabulary
//
// In the command line: trireme train --model gpt2 --init gpt2.safetensors --data ...

#include <trireme/trireme.h>

#include <cstdio>

namespace data = trireme::data;

namespace {

constexpr std::uint64_t kLength = 32;

/// Trains `model` on the windows of a text; returns bits per token on every tenth of them, and on those before it
/// began.
struct Bits {
  double before = 0;
  double after = 0;
};

Bits train(trireme::Job& job, const trireme::Model& model, const data::DatasetPtr& windows, trireme::Step steps) {
  const auto parts = data::split_off_test(windows);
  const trireme::TrainOptions options{.batch = 16, .steps = steps, .lr = 1e-3, .evaluate_each_epoch = false};
  const double before = trireme::evaluate(model, *parts.test, options).metric("bits_per_token");
  const auto result = trireme::Trainer(job, model, options).fit(parts.train, parts.test);
  return {before, result.test ? result.test->metric("bits_per_token") : 0};
}

trireme::Model make(const std::string& name, const data::DatasetPtr& windows) {
  torch::manual_seed(1);
  return trireme::make_model(name, windows->schema(), trireme::language_model().outputs(windows->schema()));
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) throw trireme::InvalidArgument("fine_tuning LONG.txt SHORT.txt, or WEIGHTS.safetensors TOKENS.bin");
  const std::string first = argv[1], second = argv[2];
  const bool published = first.ends_with(".safetensors");
  const auto windows =
      published ? data::load_tokens({second}, {.length = kLength}) : data::load_text({second}, {.length = kLength});
  const trireme::Model model = make(published ? "gpt2" : "gpt-tiny", windows);
  std::string weights = first;
  if (!published) {
    const auto job = trireme::Job::join();
    const auto earlier = data::load_text({first}, {.length = kLength});
    const trireme::Model other = make("gpt-tiny", earlier);
    std::printf("the first text: %.2f bits per byte\n", train(*job, other, earlier, 200).after);
    weights = "first.safetensors";
    trireme::save_model(*other.module, weights);
  }
  const auto report = trireme::load_model(*model.module, weights);
  std::printf("took over %zu of %zu tensors\n", report.loaded, report.of);
  const auto job = trireme::Job::join();
  const Bits bits = train(*job, model, windows, 50);
  std::printf("the second: %.2f bits per token at first, %.2f after 50 steps\n", bits.before, bits.after);
} catch (const std::exception& problem) {
  std::fprintf(stderr, "fine_tuning: %s\n", problem.what());
  return 1;
}
