#include "app/generate.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>

#include "app/trained_model.h"
#include "base/error.h"
#include "data/text/tokenizer.h"

namespace trireme::app {
namespace {

std::string prompt_of(const cli::ModelUse& use) {
  if (use.prompt != "-") return use.prompt;
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

/// A terminal obeys control characters, and a model may say any.
std::string shown(std::string text, bool terminal) {
  if (!terminal) return text;
  std::ranges::replace_if(
      text, [](char c) { return (c >= 0 && c < ' ' && c != '\n' && c != '\t') || c == 127; }, '?');
  return text;
}

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  fail<IoError>("cannot write the text: standard output is closed");
}

}  // namespace

std::int64_t choose_token(const torch::Tensor& logits, const Choice& choice, RandomStream& random) {
  if (choice.temperature == 0) return logits.argmax().item<std::int64_t>();
  const std::int64_t all = logits.size(0);
  const std::int64_t among = choice.top_k == 0 ? all : std::min<std::int64_t>(all, choice.top_k);
  const auto [values, tokens] = logits.to(torch::kFloat64).topk(among);
  const torch::Tensor shares = torch::softmax(values / choice.temperature, 0).cumsum(0);
  const double drawn = random.uniform() * shares[-1].item<double>();
  const std::int64_t at = std::min(among - 1, (shares <= drawn).sum().item<std::int64_t>());
  return tokens[at].item<std::int64_t>();
}

void generate(const cli::ModelUse& use) {
  const data::Tokenizer tokenizer = use.tokenizer.empty() ? data::Tokenizer() : data::Tokenizer::load(use.tokenizer);
  const data::Field& field = use.schema[use.schema.with(data::Role::kInput).front()];
  const std::int64_t vocabulary = field.classes.front();
  if (tokenizer.size() > vocabulary) {
    fail<InvalidArgument>("the tokenizer {} has {} tokens, and field '{}' of the model {}", use.tokenizer,
                          tokenizer.size(), field.name, vocabulary);
  }
  const std::string prompt = prompt_of(use);
  std::vector<std::int64_t> tokens;
  for (const data::Token token : tokenizer.encode(prompt)) tokens.push_back(token);
  if (tokens.empty()) fail<InvalidArgument>("--prompt is empty: a model continues a text, be it one letter");
  const TrainedModel trained = load_trained(use, 0);
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  const std::size_t context =
      field.varies() ? tokens.size() + use.tokens : static_cast<std::size_t>(field.shape[0] - 1);
  RandomStream random(use.seed);
  const torch::NoGradGuard no_grad;
  print(shown(prompt, terminal));
  for (std::uint64_t made = 0; made < use.tokens; ++made) {
    const std::size_t seen = std::min(context, tokens.size());
    const torch::Tensor input =
        torch::tensor(std::vector<std::int64_t>(tokens.end() - static_cast<std::ptrdiff_t>(seen), tokens.end()))
            .unsqueeze(0)
            .to(trained.device);
    const torch::Tensor logits = trained.model.forward(input)[0][-1].cpu();
    // A vocabulary that was rounded up has tokens that stand for nothing.
    const auto token = choose_token(logits.narrow(0, 0, tokenizer.size()),
                                    {.temperature = use.temperature, .top_k = use.top_k}, random);
    tokens.push_back(token);
    print(shown(std::string(tokenizer.piece(static_cast<data::Token>(token))), terminal));
  }
  print("\n");
}

}  // namespace trireme::app
