#include "train/given_options.h"

#include <functional>
#include <map>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "net/address.h"
#include "ps/consistency.h"

namespace trireme {
namespace {

using nlohmann::json;
using Set = std::function<void(TrainOptions& options, const json& value)>;

std::optional<Step> checkpoint_every(const std::string& text) {
  return text == "epoch" ? std::nullopt : std::optional<Step>(std::stoull(text));
}

void set_consistency(ps::Consistency& consistency, const std::string& text) {
  const ps::Consistency given = ps::parse_consistency(text);
  consistency.mode = given.mode;
  consistency.slack = given.slack;
}

/// The launcher has checked the values; `trireme run --help` says what they mean.
const std::map<std::string, Set>& setters() {
  static const std::map<std::string, Set> all{
      {"batch", [](TrainOptions& options, const json& value) { value.get_to(options.batch); }},
      {"init", [](TrainOptions& options, const json& value) { options.init = value.get<std::string>(); }},
      {"init-prefix", [](TrainOptions& options, const json& value) { value.get_to(options.init_prefix); }},
      {"epochs", [](TrainOptions& options, const json& value) { value.get_to(options.epochs); }},
      {"steps", [](TrainOptions& options, const json& value) { value.get_to(options.steps); }},
      {"lr", [](TrainOptions& options, const json& value) { value.get_to(options.lr); }},
      {"schedule", [](TrainOptions& options, const json& value) { value.get_to(options.schedule); }},
      {"lanes", [](TrainOptions& options, const json& value) { value.get_to(options.lanes); }},
      {"accumulate", [](TrainOptions& options, const json& value) { value.get_to(options.accumulate); }},
      {"threads", [](TrainOptions& options, const json& value) { value.get_to(options.threads); }},
      {"balance", [](TrainOptions& options, const json& value) { value.get_to(options.balance); }},
      {"timeline", [](TrainOptions& options, const json& value) { value.get_to(options.timeline); }},
      {"log-every", [](TrainOptions& options, const json& value) { value.get_to(options.log_every); }},
      {"strategy",
       [](TrainOptions& options, const json& value) {
         options.strategy = cluster::parse_strategy(value.get<std::string>());
         if (options.strategy.kind != cluster::StrategyChoice::Kind::kParameterServer) options.consistency = {};
       }},
      {"consistency", [](TrainOptions& options,
                         const json& value) { set_consistency(options.consistency, value.get<std::string>()); }},
      {"codec",
       [](TrainOptions& options, const json& value) { options.codec = codec::parse_spec(value.get<std::string>()); }},
      {"checkpoint-every",
       [](TrainOptions& options, const json& value) {
         options.checkpoint.every = checkpoint_every(value.get<std::string>());
       }},
      {"keep-checkpoints",
       [](TrainOptions& options, const json& value) { value.get_to(options.checkpoint.keep_last); }},
      {"checkpoint-rate", [](TrainOptions& options, const json& value) {
         options.checkpoint.bytes_per_second = net::parse_bit_rate(value.get<std::string>()) / 8;
       }}};
  return all;
}

}  // namespace

void set_given_options(TrainOptions& options, const std::string& json) {
  if (json.empty()) return;
  try {
    const auto given = nlohmann::json::parse(json);
    if (given.contains("strategy")) setters().at("strategy")(options, given.at("strategy"));  // others depend on it
    for (const auto& [name, value] : given.items()) {
      const auto setter = setters().find(name);
      if (setter == setters().end()) fail<InvalidArgument>("a Trainer has no option '{}'", name);
      if (name != "strategy") setter->second(options, value);
    }
  } catch (const std::exception& problem) {
    fail<InvalidArgument>("TRIREME_TRAIN_OPTIONS={}: {}", json, problem.what());
  }
}

}  // namespace trireme
