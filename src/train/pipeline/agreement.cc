#include "train/pipeline/agreement.h"

#include <map>
#include <numeric>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace trireme::parallel {
namespace {

using collective::Array;
using collective::ConstArray;

/// Returns every rank's text.
std::vector<std::string> gather_texts(collective::Communicator& ranks, const std::string& own) {
  std::vector<std::int64_t> sizes(ranks.size());
  const auto size = static_cast<std::int64_t>(own.size());
  ranks.run(collective::all_gather(std::span(&size, 1), std::span(sizes)));
  const std::vector<std::size_t> counts(sizes.begin(), sizes.end());
  std::string all(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), '\0');
  ranks.run(collective::all_gather(ConstArray(DType::kU8, own.data(), own.size()),
                                   Array(DType::kU8, all.data(), all.size()), counts));
  std::vector<std::string> texts;
  std::size_t at = 0;
  for (const std::size_t count : counts) {
    texts.push_back(all.substr(at, count));
    at += count;
  }
  return texts;
}

nlohmann::json facts_of(const MadeLayers& layers, const plan::Schedule& schedule,
                        const std::vector<LayerRange>& stages) {
  std::vector<std::string> names;
  for (const Layer& layer : layers.list().layers()) names.push_back(layer.name);
  std::vector<std::size_t> sizes;
  for (const LayerRange& stage : stages) sizes.push_back(stage.size());
  std::size_t digest = 0;
  for (const auto& actions : schedule.ranks) {
    for (const plan::Action& action : actions) digest = digest * 31 + std::hash<std::string>()(to_text(action));
  }
  return {{"layers", fmt::format("{}", fmt::join(names, " "))},
          {"layers per stage", fmt::format("{}", fmt::join(sizes, ","))},
          {"schedule", fmt::format("{} of {} micro-batches ({:x})", schedule.name, schedule.micro_batches, digest)},
          {"base of initial values", layers.list().base()}};
}

}  // namespace

void check_agreement(collective::Communicator& ranks, const MadeLayers& layers, const plan::Schedule& schedule,
                     const std::vector<LayerRange>& stages, const std::vector<NamedParameter>& owned) {
  nlohmann::json own{{"facts", facts_of(layers, schedule, stages)}, {"owned", nlohmann::json::array()}};
  for (const NamedParameter& parameter : owned) own["owned"].push_back(parameter.name);
  std::map<std::string, Rank> owners;
  nlohmann::json first;
  Rank rank = 0;
  for (const std::string& text : gather_texts(ranks, own.dump())) {
    const auto theirs = nlohmann::json::parse(text);
    if (rank == 0) first = theirs["facts"];
    for (const auto& [what, value] : theirs["facts"].items()) {
      if (value == first[what]) continue;
      fail<InvalidArgument>("the ranks of the pipeline disagree about the {}: rank 0 has {}, and rank {} has {}", what,
                            first[what].dump(), rank, value.dump());
    }
    for (const std::string name : theirs["owned"]) {
      const auto [owner, added] = owners.emplace(name, rank);
      if (added) continue;
      fail<InvalidArgument>(
          "parameter '{}' is on rank {} and on rank {} of the pipeline: layers that share one must declare a tie", name,
          owner->second, rank);
    }
    ++rank;
  }
}

}  // namespace trireme::parallel
