#include "optim/update_config.h"

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/suggest.h"

namespace trireme::optim {
namespace {

struct RuleFacts {
  Rule rule;
  std::string_view name;
  std::size_t state_floats;
  double epsilon;  ///< torch's default
};

constexpr std::array kRules = {
    RuleFacts{Rule::kSgd, "sgd", 0, 0},
    RuleFacts{Rule::kMomentum, "momentum", 1, 0},
    RuleFacts{Rule::kNesterov, "nesterov", 1, 0},
    RuleFacts{Rule::kAdagrad, "adagrad", 1, 1e-10},
    RuleFacts{Rule::kRmsProp, "rmsprop", 1, 1e-8},
    RuleFacts{Rule::kAdam, "adam", 2, 1e-8},
    RuleFacts{Rule::kAdamW, "adamw", 2, 1e-8},
    RuleFacts{Rule::kFtrl, "ftrl", 2, 0},
};

const RuleFacts& facts(Rule rule) {
  for (const RuleFacts& known : kRules) {
    if (known.rule == rule) return known;
  }
  check_failed("known rule", fmt::format("rule {}", static_cast<int>(rule)), __FILE__, __LINE__);
}

}  // namespace

Rule parse_rule(std::string_view text) {
  std::vector<std::string> names;
  std::string list;
  for (const RuleFacts& known : kRules) {
    if (known.name == text) return known.rule;
    names.emplace_back(known.name);
    list += (list.empty() ? "" : ", ") + names.back();
  }
  fail<InvalidArgument>("unknown optimizer '{}'{}; known are {}", text, did_you_mean(text, names), list);
}

std::string_view to_string(Rule rule) { return facts(rule).name; }

std::size_t state_floats(const UpdateConfig& config) {
  return facts(config.rule).state_floats + (config.ema > 0 ? 1 : 0) + (config.prunes ? 1 : 0);
}

std::vector<std::string> state_names(const UpdateConfig& config) {
  std::vector<std::string> names;
  for (std::size_t k = 0; k < facts(config.rule).state_floats; ++k) names.push_back(fmt::format("{}", k));
  if (config.ema > 0) names.emplace_back("ema");
  if (config.prunes) names.emplace_back("pruned");
  return names;
}

std::optional<std::size_t> average_array(const UpdateConfig& config) {
  return config.ema > 0 ? std::optional(facts(config.rule).state_floats) : std::nullopt;
}

void to_json(nlohmann::json& json, Rule rule) { json = to_string(rule); }
void from_json(const nlohmann::json& json, Rule& rule) { rule = parse_rule(json.get<std::string>()); }

namespace {

void require(bool good, std::string_view field, double value, std::string_view allowed) {
  if (!good) fail<InvalidArgument>("{} is {}, but must be {}", field, value, allowed);
}

void require_positive_or_zero(std::string_view field, double value) {
  require(std::isfinite(value) && value >= 0, field, value, "a finite number of at least 0");
}

void require_fraction(std::string_view field, double value) {
  require(value >= 0 && value < 1, field, value, "at least 0 and below 1");
}

}  // namespace

void validate(const UpdateConfig& config) {
  require_fraction("momentum", config.momentum);
  require(std::isfinite(config.dampening), "dampening", config.dampening, "a finite number");
  require_fraction("alpha", config.alpha);
  require_fraction("beta1", config.beta1);
  require_fraction("beta2", config.beta2);
  require_positive_or_zero("epsilon", config.epsilon);
  require_positive_or_zero("ftrl_beta", config.ftrl_beta);
  require_positive_or_zero("l1", config.l1);
  require_positive_or_zero("l2", config.l2);
  require_positive_or_zero("clip_value", config.clip_value);
  require_fraction("ema", config.ema);
  const std::string_view name = to_string(config.rule);
  if (config.l1 != 0 && config.rule != Rule::kFtrl) {
    fail<InvalidArgument>("l1 is {}, but optimizer '{}' has no L1 term: set it to 0 or use ftrl", config.l1, name);
  }
  if (config.dampening != 0 && config.rule != Rule::kMomentum) {
    fail<InvalidArgument>("dampening is {}, but optimizer '{}' takes none: set it to 0 or use momentum",
                          config.dampening, name);
  }
}

void validate(const UpdateInput& input) {
  if (input.step == 0) fail<InvalidArgument>("the step of an update is 0, but steps count from 1");
  require_positive_or_zero("learning rate", input.lr);
  require(std::isfinite(input.gradient_scale), "gradient scale", input.gradient_scale, "a finite number");
  require_positive_or_zero("the magnitude to prune below", input.prune_below);
}

double effective_epsilon(const UpdateConfig& config) {
  return config.epsilon > 0 ? config.epsilon : facts(config.rule).epsilon;
}

}  // namespace trireme::optim
