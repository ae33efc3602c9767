#include "cluster/strategy_choice.h"

#include <charconv>

#include "base/error.h"
#include "base/suggest.h"

namespace trireme::cluster {
namespace {

constexpr std::string_view kLocalSgd = "local-sgd";
constexpr std::string_view kZero = "zero";
constexpr std::uint32_t kMostShards = 1u << 16;

/// "2", "2,shards=4".
ZeroChoice parse_zero(const std::string& text, std::string_view rest) {
  const auto refuse = [&] {
    fail<InvalidArgument>(
        "strategy '{}': write zero:1 (workers divide the optimizer's state), zero:2 (and gradients) or zero:3 (and "
        "parameters); zero:2,shards=4 divides among groups of 4 workers",
        text);
  };
  ZeroChoice choice;
  const std::string_view stage = rest.substr(0, rest.find(','));
  if (stage != "1" && stage != "2" && stage != "3") refuse();
  choice.stage = static_cast<std::uint32_t>(stage.front() - '0');
  if (stage.size() == rest.size()) return choice;
  constexpr std::string_view kShards = "shards=";
  std::string_view number = rest.substr(stage.size() + 1);
  if (!number.starts_with(kShards)) refuse();
  number.remove_prefix(kShards.size());
  const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), choice.shards);
  if (problem != std::errc() || end != number.data() + number.size() || choice.shards == 0 ||
      choice.shards > kMostShards) {
    refuse();
  }
  return choice;
}

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
  if (word == kZero) {
    const std::size_t colon = std::min(text.size(), kZero.size() + 1);
    return {.kind = Kind::kZero, .zero = parse_zero(text, std::string_view(text).substr(colon))};
  }
  if (word == kLocalSgd) {
    fail<InvalidArgument>("strategy '{}': how many steps of its own does a worker take? such as local-sgd:16", text);
  }
  fail<InvalidArgument>("unknown strategy '{}'{}: use ps, allreduce, zero:<stage>, local-sgd:<steps> or central", text,
                        did_you_mean(word, {"ps", "allreduce", std::string(kZero), std::string(kLocalSgd), "central"}));
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
    case StrategyChoice::Kind::kZero:
      return choice.zero.shards == 0 ? fmt::format("{}:{}", kZero, choice.zero.stage)
                                     : fmt::format("{}:{},shards={}", kZero, choice.zero.stage, choice.zero.shards);
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
