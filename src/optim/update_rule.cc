#include "optim/update_rule.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/error.h"
#include "base/numbers/simd.h"

namespace trireme::optim {

StateArrays state_at(const UpdateConfig& config, std::span<float> state, std::size_t count, std::size_t begin) {
  const std::size_t arrays = state_floats(config);
  TRIREME_CHECK(state.size() == arrays * count && begin <= count, "state of {} floats for {} parameters of rule {}",
                state.size(), count, to_string(config.rule));
  StateArrays at{};
  for (std::size_t k = 0; k < arrays; ++k) at[k] = state.data() + k * count + begin;
  return at;
}

namespace {

constexpr std::size_t kBlock = 4096;  // floats

/// The arrays that every kernel works on.
struct Block {
  float* parameters;
  StateArrays state;
  const float* gradient;
  std::size_t count;
};

// One pass over a block per rule, `call` for each element i.
#define TRIREME_RULE_LOOP(name, call)                              \
  TRIREME_SIMD void name##_block(Block block, UpdateConstants c) { \
    const auto [p, state, g, count] = block;                       \
    [[maybe_unused]] float* const s0 = state[0];                   \
    [[maybe_unused]] float* const s1 = state[1];                   \
    TRIREME_INDEPENDENT                                            \
    for (std::size_t i = 0; i < count; ++i) call;                  \
  }
TRIREME_RULE_LOOP(sgd, sgd(p[i], g[i], c))
TRIREME_RULE_LOOP(momentum, momentum(p[i], s0[i], g[i], c))
TRIREME_RULE_LOOP(nesterov, nesterov(p[i], s0[i], g[i], c))
TRIREME_RULE_LOOP(adagrad, adagrad(p[i], s0[i], g[i], c))
TRIREME_RULE_LOOP(rmsprop, rmsprop(p[i], s0[i], g[i], c))
TRIREME_RULE_LOOP(adam, adam(p[i], s0[i], s1[i], g[i], c))
TRIREME_RULE_LOOP(ftrl, ftrl(p[i], s0[i], s1[i], g[i], c))
TRIREME_RULE_LOOP(start_ftrl, s0[i] = ftrl_start(p[i], c.ftrl))
#undef TRIREME_RULE_LOOP

/// Returns base^exponent, by squaring. Not std::pow: the C library picks an implementation by processor, and the last
/// bit may differ.
double power(double base, std::uint64_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base) {
    if (exponent & 1) result *= base;
  }
  return result;
}

AdamConstants adam_constants(const UpdateConfig& config, const UpdateInput& input) {
  const double decay = config.rule == Rule::kAdamW ? input.lr * config.l2 : 0;
  return {.keep1 = static_cast<float>(config.beta1),
          .take1 = static_cast<float>(1 - config.beta1),
          .keep2 = static_cast<float>(config.beta2),
          .take2 = static_cast<float>(1 - config.beta2),
          .shrink = static_cast<float>(1 - decay),
          .step_size = static_cast<float>(input.lr / (1 - power(config.beta1, input.step))),
          .inverse_root = static_cast<float>(1 / std::sqrt(1 - power(config.beta2, input.step))),
          .epsilon = static_cast<float>(effective_epsilon(config))};
}

FtrlConstants ftrl_constants(const UpdateConfig& config, const UpdateInput& input) {
  return {.lr = static_cast<float>(input.lr),
          .beta = static_cast<float>(config.ftrl_beta),
          .l1 = static_cast<float>(input.lr * config.l1),
          .l2 = static_cast<float>(input.lr * config.l2)};
}

Preparation preparation(const UpdateConfig& config, const UpdateInput& input) {
  const bool coupled = config.rule != Rule::kAdamW && config.rule != Rule::kFtrl;
  return {
      .scale = static_cast<float>(input.gradient_scale),
      .limit = config.clip_value > 0 ? static_cast<float>(config.clip_value) : std::numeric_limits<float>::infinity(),
      .decay = coupled ? static_cast<float>(config.l2) : 0.0f};
}

/// Notes which parameters are too small to be kept.
TRIREME_SIMD void mark_block(const float* p, float* pruned, std::size_t count, float below) {
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) pruned[i] = mark_small(p[i], pruned[i], below);
}

TRIREME_SIMD void clear_pruned(float* p, const float* pruned, std::size_t count) {
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) p[i] = pruned[i] != 0 ? 0.0f : p[i];
}

TRIREME_SIMD void average_block(const float* p, float* mean, std::size_t count, float keep, float take) {
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) mean[i] = averaged(mean[i], p[i], keep, take);
}

void apply_rule(Rule rule, const UpdateConstants& constants, Block block) {
  switch (rule) {
    case Rule::kSgd:
      return sgd_block(block, constants);
    case Rule::kMomentum:
      return momentum_block(block, constants);
    case Rule::kNesterov:
      return nesterov_block(block, constants);
    case Rule::kAdagrad:
      return adagrad_block(block, constants);
    case Rule::kRmsProp:
      return rmsprop_block(block, constants);
    case Rule::kAdam:
    case Rule::kAdamW:
      return adam_block(block, constants);
    case Rule::kFtrl:
      if (constants.first) start_ftrl_block(block, constants);
      return ftrl_block(block, constants);
  }
}

}  // namespace

UpdateConstants update_constants(const UpdateConfig& config, const UpdateInput& input) {
  UpdateConstants c{.prepare = preparation(config, input),
                    .lr = static_cast<float>(input.lr),
                    .keep = static_cast<float>(config.momentum),
                    .take = 1,
                    .epsilon = static_cast<float>(effective_epsilon(config)),
                    .first = input.step == 1,
                    .adam = {},
                    .ftrl = ftrl_constants(config, input),
                    .prune_below = static_cast<float>(input.prune_below),
                    .average_keep = input.step == 1 ? 0.0f : static_cast<float>(config.ema),
                    .average_take = input.step == 1 ? 1.0f : static_cast<float>(1 - config.ema)};
  if (config.rule == Rule::kAdam || config.rule == Rule::kAdamW) c.adam = adam_constants(config, input);
  // In the first step: 0 times the zero buffer, plus the whole gradient.
  if (config.rule == Rule::kMomentum && !c.first) c.take = static_cast<float>(1 - config.dampening);
  if (config.rule == Rule::kRmsProp) {
    c.keep = static_cast<float>(config.alpha);
    c.take = static_cast<float>(1 - config.alpha);
  }
  return c;
}

void apply_update(const UpdateConfig& config, const UpdateInput& input, std::span<float> parameters, StateArrays state,
                  std::span<const float> gradient) {
  TRIREME_CHECK(parameters.size() == gradient.size() && input.step > 0, "{} parameters, {} gradients, step {}",
                parameters.size(), gradient.size(), input.step);
  const std::size_t arrays = state_floats(config);
  for (std::size_t k = 0; k < arrays; ++k) {
    TRIREME_CHECK(state[k] != nullptr, "array {} of rule {}", k, to_string(config.rule));
  }
  const Block whole{parameters.data(), state, gradient.data(), parameters.size()};
  const UpdateConstants constants = update_constants(config, input);
  if (!config.prunes && config.ema <= 0) return apply_rule(config.rule, constants, whole);

  // Block by block, so that what follows the rule finds it in the first-level cache.
  float* const pruned = config.prunes ? state[arrays - 1] : nullptr;
  float* const mean = config.ema > 0 ? state[*average_array(config)] : nullptr;
  for (std::size_t begin = 0; begin < parameters.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, parameters.size() - begin);
    Block block{parameters.data() + begin, {}, gradient.data() + begin, count};
    for (std::size_t k = 0; k < arrays; ++k) block.state[k] = state[k] + begin;
    if (pruned != nullptr) mark_block(block.parameters, pruned + begin, count, constants.prune_below);
    apply_rule(config.rule, constants, block);
    if (pruned != nullptr) clear_pruned(block.parameters, pruned + begin, count);
    if (mean != nullptr)
      average_block(block.parameters, mean + begin, count, constants.average_keep, constants.average_take);
    if (pruned != nullptr && mean != nullptr) clear_pruned(mean + begin, pruned + begin, count);
  }
}

}  // namespace trireme::optim
