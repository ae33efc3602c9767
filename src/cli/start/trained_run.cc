#include "cli/start/trained_run.h"

#include <algorithm>
#include <charconv>

#include "trireme/transforms.h"

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/list.h"
#include "cli/flags/config_file.h"
#include "cli/flags/known_names.h"

namespace trireme::cli {
namespace {

using checkpoint::CheckpointEntry;

std::vector<CheckpointEntry> complete_checkpoints(const observe::RunFolder& folder) {
  std::vector<CheckpointEntry> entries = checkpoint::list_checkpoints(folder.checkpoints());
  std::erase_if(entries, [](const auto& entry) { return entry.state != CheckpointEntry::State::kComplete; });
  return entries;
}

const CheckpointEntry& choose(const std::vector<CheckpointEntry>& entries, const std::string& checkpoint,
                              const std::string& run) {
  if (entries.empty()) {
    fail<InvalidArgument>("{} has no complete checkpoint: see trireme ckpt ls {}", run, run);
  }
  if (checkpoint.empty() || checkpoint == "last") return entries.back();
  if (checkpoint == "best") {
    const auto best = std::ranges::max_element(
        entries, {}, [](const auto& entry) { return std::pair(entry.score.has_value(), entry.score.value_or(0)); });
    if (!best->score) {
      fail<InvalidArgument>(
          "--checkpoint best: no checkpoint of {} has a score; it was not evaluated, see "
          "trireme ckpt ls {}",
          run, run);
    }
    return *best;
  }
  Step step = 0;
  const char* const end = checkpoint.data() + checkpoint.size();
  if (const auto [stopped, problem] = std::from_chars(checkpoint.data(), end, step);
      problem != std::errc() || stopped != end) {
    fail<InvalidArgument>("--checkpoint {}: a step, best or last", checkpoint);
  }
  const auto found = std::ranges::find(entries, step, &CheckpointEntry::step);
  if (found == entries.end()) {
    fail<InvalidArgument>("{} has no complete checkpoint of step {}: see trireme ckpt ls {}", run, step, run);
  }
  return *found;
}

std::filesystem::path weights_of(const observe::RunFolder& folder, const std::string& checkpoint) {
  if (checkpoint.empty() && std::filesystem::exists(folder.model())) return folder.model();
  return choose(complete_checkpoints(folder), checkpoint, folder.path().string()).folder;
}

}  // namespace

TrainFlags flags_in(const std::string& config) {
  CLI::App command;
  TrainFlags flags;
  declare(command, flags);
  apply_config_file(command, config);
  return flags;
}

void to_json(nlohmann::json& json, const ModelUse& use) {
  json = {{"flags", use.flags},       {"schema", use.schema},
          {"task", use.task},         {"weights", use.weights},
          {"encoding", use.encoding}, {"data", use.data},
          {"part", use.part},         {"out", use.out},
          {"npy", use.npy},           {"probabilities", use.probabilities},
          {"prompt", use.prompt},     {"tokenizer", use.tokenizer},
          {"tokens", use.tokens},     {"temperature", use.temperature},
          {"top_k", use.top_k},       {"seed", use.seed}};
}

void from_json(const nlohmann::json& json, ModelUse& use) {
  json.at("flags").get_to(use.flags);
  json.at("schema").get_to(use.schema);
  json.at("task").get_to(use.task);
  json.at("weights").get_to(use.weights);
  json.at("data").get_to(use.data);
  json.at("part").get_to(use.part);
  json.at("out").get_to(use.out);
  json.at("npy").get_to(use.npy);
  json.at("probabilities").get_to(use.probabilities);
  json.at("prompt").get_to(use.prompt);
  json.at("encoding").get_to(use.encoding);
  json.at("tokenizer").get_to(use.tokenizer);
  json.at("tokens").get_to(use.tokens);
  json.at("temperature").get_to(use.temperature);
  json.at("top_k").get_to(use.top_k);
  json.at("seed").get_to(use.seed);
}

ModelUse open_trained(const observe::RunFolder& folder, const std::string& checkpoint) {
  const RunSamples samples = read_samples_of(folder);
  ModelUse use{.flags = flags_in(folder.config().string()),
               .schema = samples.schema,
               .task = samples.task,
               .weights = std::filesystem::absolute(weights_of(folder, checkpoint)).string(),
               .encoding = read_file(folder.data()),
               .tokenizer = samples.tokenizer.string()};
  if (std::filesystem::exists(folder.network())) {
    use.flags.model = std::filesystem::absolute(folder.network()).string();
  }
  check_model("--model", use.flags.model);
  return use;
}

data::DatasetPtr load_samples(const ModelUse& use) {
  TrainFlags flags = use.flags;
  if (!use.data.empty()) flags.data = use.data;
  if (!use.data.empty() && use.part == "all" && !own_data(use.data)) {
    data::OpenOptions options = open_options(use.flags);
    if (std::filesystem::exists(use.data)) options.folders.reset();  // those are of the data it was trained on
    return data::open_like(use.data, data::Encoding::parse(use.encoding), options);
  }
  const data::Split split = load_data(flags).split;
  if (use.part == "train") return split.train;
  if (use.part == "test") return split.test;
  return data::concat({split.train, split.test});
}

}  // namespace trireme::cli
