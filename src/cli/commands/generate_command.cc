#include <memory>

#include "base/error.h"
#include "cli/flags/numbers.h"
#include "cli/model/model_use.h"
#include "cli/start/own_program.h"

namespace trireme::cli {
namespace {

constexpr std::int64_t kBytes = 256;

struct GenerateFlags {
  UseFlags use;
  std::string prompt;
  std::string tokenizer;
  std::uint64_t tokens = 200;
  double temperature = 1;
  std::uint32_t top_k = 0;
  std::uint64_t seed = 1;
};

/// Throws InvalidArgument unless the model speaks in tokens whose text is known.
void check_speaks(const ModelUse& use, const std::string& run) {
  if (use.task != "language-model") {
    fail<InvalidArgument>("{} was trained for task {}, and only a language-model generates: see 'trireme predict'", run,
                          use.task);
  }
  const data::Field& tokens = use.schema[use.schema.with(data::Role::kInput).front()];
  if (use.tokenizer.empty() && tokens.classes.front() > kBytes) {
    fail<InvalidArgument>(
        "the field '{}' of {} has {} tokens, and the run does not know the tokenizer that made them: give it with "
        "--tokenizer",
        tokens.name, run, tokens.classes.front());
  }
  if (!use.tokenizer.empty() && !std::filesystem::exists(use.tokenizer)) {
    fail<InvalidArgument>("there is no tokenizer {}: say with --tokenizer where it is now", use.tokenizer);
  }
}

int generate(const GenerateFlags& flags, const WorkerProgram& program) {
  ModelUse use = open_model(flags.use);
  if (!flags.tokenizer.empty()) use.tokenizer = flags.tokenizer;
  check_speaks(use, flags.use.run);
  use.prompt = flags.prompt;
  use.tokens = flags.tokens;
  use.temperature = flags.temperature;
  use.top_k = flags.top_k;
  use.seed = flags.seed;
  become(worker_words(program, {"generate", nlohmann::json(use).dump()}));
}

}  // namespace

void add_generate(CLI::App& app, Action& action, const WorkerProgram& program, const Words& words) {
  auto* command = app.add_subcommand("generate", "let the language model of a run continue a text");
  auto flags = std::make_shared<GenerateFlags>();
  declare_model(*command, flags->use);
  command->add_option("--prompt", flags->prompt, "the text to continue; -: from standard input")->required();
  add_number(*command, "--tokens", flags->tokens, "how many to add", {.least = 1})->capture_default_str();
  add_number(*command, "--temperature", flags->temperature,
             "below 1 the likely ones are likelier; 0: always the likeliest", {.least = 0})
      ->capture_default_str();
  add_number(*command, "--top-k", flags->top_k, "choose among this many of the likeliest only; 0: among all")
      ->capture_default_str();
  add_number(*command, "--seed", flags->seed, "the same seed gives the same text")->capture_default_str();
  command->add_option(
      "--tokenizer", flags->tokenizer,
      "file of 'trireme data tokenize', or GPT-2's vocab.json; what the run was trained with unless given");
  command->footer("Example: trireme generate runs/novels --prompt 'It is a truth' --temperature 0.8 --top-k 40");
  command->callback([flags, program, words, &action] {
    action = hand_over(flags->use.run, program, words);
    if (!action) action = [flags, program] { return generate(*flags, program); };
  });
}

}  // namespace trireme::cli
