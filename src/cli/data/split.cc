#include "cli/data/split.h"

#include <memory>

#include <fmt/format.h>

#include "cli/flags/numbers.h"
#include "data/files/shards.h"
#include "data/files/split_file.h"

namespace trireme::cli {
namespace {

struct DataSplitOptions {
  std::vector<std::string> files = {};
  std::uint64_t every = 10;
  std::string out = {};
};

int data_split(const DataSplitOptions& options) {
  if (!options.out.empty()) std::filesystem::create_directories(options.out);
  for (const std::filesystem::path& file : data::expand(options.files)) {
    const data::SplitFiles written = data::split_file(file, {.every = options.every, .folder = options.out});
    fmt::print("{}: {}\n{}: {}\n", written.train.string(), written.train_samples, written.test.string(),
               written.test_samples);
  }
  return 0;
}

}  // namespace

void declare_data_split(CLI::App& data, Action& action) {
  auto* command = data.add_subcommand("split", "divide files into one for training and one for testing");
  auto options = std::make_shared<DataSplitOptions>();
  command->add_option("files", options->files, ".csv .tsv .libsvm .tfrecord .tar .npy .txt or .bin files, or patterns")
      ->required();
  add_number(*command, "--test-every", options->every,
             "every n-th sample is for testing; of text and tokens, the last n-th part", {.least = 2})
      ->capture_default_str();
  command->add_option("--out", options->out, "the folder to write to; beside each file unless given");
  command->footer("Writes NAME.train.EXT and NAME.test.EXT, unpacked, and prints how many samples each has.");
  command->callback([options, &action] { action = [options] { return data_split(*options); }; });
}

}  // namespace trireme::cli
