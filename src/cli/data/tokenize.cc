#include "cli/data/tokenize.h"

#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/flags/numbers.h"
#include "data/files/shards.h"
#include "data/text/bpe_training.h"
#include "data/text/text_stream.h"
#include "data/text/token_info.h"

namespace trireme::cli {
namespace {

using std::filesystem::path;

path beside(const path& out, const std::string& ending) {
  path result = out;
  result.replace_extension();
  result += ending;
  return result;
}

std::uint64_t count_bytes(const std::vector<path>& files) {
  data::TextStream stream(files);
  while (!stream.next().empty()) {
  }
  return stream.offset();
}

data::Tokenizer learn(const std::vector<path>& files, std::uint32_t vocabulary) {
  data::WordCounts words;
  data::TextStream stream(files);
  for (std::string_view piece = stream.next(); !piece.empty(); piece = stream.next()) words.add(piece);
  return data::train_bpe(words, vocabulary);
}

/// Writes the tokens of what `stream` has up to `limit`, and the description beside them.
void write_tokens(data::TextStream& stream, std::uint64_t limit, data::Encoder& encoder,
                  const data::Tokenizer& tokenizer, const std::string& tokenizer_file, const path& out) {
  const std::uint64_t began = stream.offset();
  data::TokenInfo info{.vocabulary = tokenizer.size(), .tokenizer = tokenizer_file};
  const data::Token end_of_text = tokenizer.special("<|endoftext|>");
  write_file_atomically(out, [&](const std::function<void(Bytes)>& sink) {
    std::vector<data::Token> tokens;
    std::vector<std::uint16_t> narrow;
    while (stream.offset() < limit) {
      const std::string_view piece = stream.next(limit);
      if (piece.empty()) break;
      tokens.clear();
      encoder.encode(piece, tokens);
      if (stream.file_ended() && end_of_text < tokenizer.size()) tokens.push_back(end_of_text);
      narrow.assign(tokens.begin(), tokens.end());
      sink(std::as_bytes(std::span(narrow)));
      info.tokens += narrow.size();
    }
  });
  info.bytes = stream.offset() - began;
  if (info.tokens == 0) fail<InvalidArgument>("no text is left for {}: choose another --test-fraction", out.string());
  data::save_token_info(out, info);
  fmt::print("{}: {} tokens for {} bytes of text, {:.2f} bytes each\n", out.string(), info.tokens, info.bytes,
             static_cast<double>(info.bytes) / static_cast<double>(info.tokens));
}

}  // namespace

int data_tokenize(const DataTokenizeOptions& options) {
  const std::vector<path> files = data::expand(options.files);
  const path out = options.out;
  const path own = beside(out, ".bpe.json");
  const data::Tokenizer tokenizer =
      options.tokenizer.empty() ? learn(files, options.vocabulary) : data::Tokenizer::load(options.tokenizer);
  if (tokenizer.size() > 65536) {
    fail<InvalidArgument>("{} has {} tokens: at most 65536 fit in 16 bits", options.tokenizer, tokenizer.size());
  }
  tokenizer.save(own);  // beside the tokens, also if it came from elsewhere: they belong together
  fmt::print("{}: a vocabulary of {} tokens\n", own.string(), tokenizer.size());
  const std::uint64_t bytes = count_bytes(files);
  const auto limit = static_cast<std::uint64_t>(static_cast<double>(bytes) * (1 - options.test_fraction));
  data::TextStream stream(files);
  data::Encoder encoder(tokenizer);
  write_tokens(stream, options.test_fraction > 0 ? limit : bytes, encoder, tokenizer, own.filename().string(), out);
  if (options.test_fraction > 0) {
    write_tokens(stream, bytes, encoder, tokenizer, own.filename().string(), beside(out, ".test.bin"));
  }
  return 0;
}

void declare_data_tokenize(CLI::App& data, Action& action) {
  auto* command =
      data.add_subcommand("tokenize", "text to a file of tokens, with a vocabulary that is learned or given");
  auto options = std::make_shared<DataTokenizeOptions>();
  command->add_option("text", options->files, "files, plain, gzip or zstd; or patterns: 'books/*.txt'")->required();
  auto* vocabulary = add_number(*command, "--vocabulary", options->vocabulary, "how many tokens to learn",
                                {.least = 256, .most = 65536});
  vocabulary->capture_default_str();
  command
      ->add_option("--tokenizer", options->tokenizer,
                   "use this one: what an earlier call wrote (.bpe.json), or GPT-2's vocab.json beside its merges.txt")
      ->check(CLI::ExistingPath)
      ->excludes(vocabulary);
  command->add_option("--out", options->out, "the file of tokens; .json and .bpe.json are written beside it")
      ->capture_default_str();
  add_number(*command, "--test-fraction", options->test_fraction, "how much of the end goes to a .test.bin instead",
             {.least = 0, .most = 0.9})
      ->capture_default_str();
  command->callback([options, &action] { action = [options] { return data_tokenize(*options); }; });
}

}  // namespace trireme::cli
