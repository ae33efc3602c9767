#include <cstdio>
#include <fstream>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "cli/model/model_use.h"
#include "cli/model/npy.h"
#include "cli/start/own_program.h"

namespace trireme::cli {
namespace {

struct PredictFlags {
  UseFlags use;
  std::string out;
  bool probabilities = false;
};

/// Passes each part of the result on, in the order of the samples.
void for_each_part(const std::filesystem::path& folder, std::uint32_t workers, const std::function<void(Bytes)>& sink) {
  constexpr std::size_t kAtOnce = std::size_t{1} << 20;
  std::string buffer(kAtOnce, '\0');
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    const auto path = folder / fmt::format("part-{}", rank);
    std::ifstream file(path, std::ios::binary);
    if (!file) fail<IoError>("cannot read {}", path.string());
    while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file.gcount() > 0) {
      sink(as_bytes(std::string_view(buffer).substr(0, static_cast<std::size_t>(file.gcount()))));
    }
  }
}

int predict(const PredictFlags& flags, const WorkerProgram& program) {
  ModelUse use = open_model_and_samples(flags.use, /*with_targets=*/false);
  if (use.task == "language-model") {
    fail<InvalidArgument>("{} is a language model: see 'trireme generate', or 'trireme eval'", flags.use.run);
  }
  JobFolder folder;
  use.out = folder.path().string();
  use.npy = flags.out.ends_with(".npy");
  use.probabilities = flags.probabilities;
  const nlohmann::json result = run_use("predict", use, flags.use, program, folder);
  if (result.is_null()) return 1;
  const std::string head = use.npy ? npy_header(result.at("dtype"), result.at("shape")) : result.value("header", "");
  const auto write = [&](const std::function<void(Bytes)>& sink) {
    sink(as_bytes(head));
    for_each_part(folder.path(), flags.use.workers, sink);
  };
  if (flags.out.empty()) {
    write([](Bytes bytes) { std::fwrite(bytes.data(), 1, bytes.size(), stdout); });
    return std::fflush(stdout) == 0 ? 0 : 1;
  }
  write_file_atomically(flags.out, write);
  fmt::print("{} predictions are in {}\n", result.value("samples", std::uint64_t{0}), flags.out);
  return 0;
}

}  // namespace

void add_predict(CLI::App& app, Action& action, const WorkerProgram& program, const Words& words) {
  auto* command = app.add_subcommand("predict", "what the model of a run says of samples, a row for each, in order");
  auto flags = std::make_shared<PredictFlags>();
  declare_model(*command, flags->use);
  declare_samples(*command, flags->use);
  command->add_option("-o,--out", flags->out, "a .csv or a .npy file; CSV on standard output unless given");
  command->add_flag("--probabilities", flags->probabilities,
                    "how likely each class is, instead of the likeliest alone");
  command->footer("Example: trireme predict runs/first rows.csv --probabilities -o predictions.csv");
  command->callback([flags, program, words, &action] {
    if (!flags->out.empty() && !flags->out.ends_with(".csv") && !flags->out.ends_with(".npy")) {
      fail<InvalidArgument>("--out {}: predictions are written as .csv or .npy", flags->out);
    }
    action = hand_over(flags->use.run, program, words);
    if (!action) action = [flags, program] { return predict(*flags, program); };
  });
}

}  // namespace trireme::cli
