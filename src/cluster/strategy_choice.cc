#include "cluster/strategy_choice.h"

#include "base/error.h"
#include "base/suggest.h"

namespace trireme::cluster {
namespace {

constexpr std::string_view kLocalSgd = "local-sgd";

}  // namespace

StrategyChoice parse_strategy(const std::string& text) {
  using Kind = StrategyChoice::Kind;
  if (text == "ps") return {.kind = Kind::kParameterServer};
  if (text == "allreduce") return {.kind = Kind::kAllReduce};
  if (text == "central") return {.kind = Kind::kCentral};
  if (text.starts_with(std::string(kLocalSgd) + ":")) {
    try {
      const std::string_view rest = std::string_view(text).substr(kLocalSgd.size() + 1);
      return {.kind = Kind::kLocalSgd, .local_sgd = parse_local_sgd(rest)};
    } catch (const InvalidArgument& problem) {
      fail<InvalidArgument>("strategy '{}': {}; write it such as local-sgd:16", text, problem.what());
    }
  }
  const std::string word = text.substr(0, text.find(':'));
  if (word == kLocalSgd) {
    fail<InvalidArgument>("strategy '{}': how many steps of its own does a worker take? such as local-sgd:16", text);
  }
  fail<InvalidArgument>("unknown strategy '{}'{}: use ps, allreduce, local-sgd:<steps> or central", text,
                        did_you_mean(word, {"ps", "allreduce", std::string(kLocalSgd), "central"}));
}

std::string to_string(const StrategyChoice& choice) {
  switch (choice.kind) {
    case StrategyChoice::Kind::kParameterServer:
      return "ps";
    case StrategyChoice::Kind::kAllReduce:
      return "allreduce";
    case StrategyChoice::Kind::kLocalSgd:
      return fmt::format("{}:{}", kLocalSgd, to_string(choice.local_sgd));
    case StrategyChoice::Kind::kCentral:
      return "central";
  }
  return "?";
}

std::string describe(const StrategyChoice& choice, const std::string& consistency) {
  const bool has_one = choice.kind == StrategyChoice::Kind::kParameterServer;
  return has_one ? to_string(choice) + ":" + consistency : to_string(choice);
}

void check_servers(const StrategyChoice& choice, std::uint32_t servers) {
  if (choice.uses_servers() && servers == 0) {
    fail<InvalidArgument>(
        "strategy {} keeps the parameters on servers, but the job has none: give --servers 1, or use allreduce",
        to_string(choice));
  }
  if (choice.kind == StrategyChoice::Kind::kCentral && servers > 1) {
    fail<InvalidArgument>("strategy central keeps the parameters in one place, but the job has {} servers: use ps",
                          servers);
  }
}

BufferPolicy parse_buffers(const std::string& text) {
  if (text == "average") return BufferPolicy::kAverage;
  if (text == "broadcast") return BufferPolicy::kBroadcast;
  if (text == "own") return BufferPolicy::kOwn;
  fail<InvalidArgument>("buffers '{}'{}: use average, broadcast or own", text,
                        did_you_mean(text, {"average", "broadcast", "own"}));
}

}  // namespace trireme::cluster
