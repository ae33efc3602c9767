#include "optim/update_rule.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/error.h"
#include "base/simd.h"

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

/// What is done to the gradient before the rule sees it. Without branches: an infinite limit clips nothing, and a zero
/// decay adds nothing.
struct Preparation {
  float scale;
  float limit;
  float decay;

  [[gnu::always_inline]] float operator()(float gradient, float parameter) const {
    const float scaled = gradient * scale;
    const float below = scaled > limit ? limit : scaled;  // written so that NaN passes through
    const float clipped = below < -limit ? -limit : below;
    return clipped + decay * parameter;
  }
};

// The kernels. Products and quotients are in the order in which torch's addcmul and addcdiv take them.

TRIREME_SIMD void sgd(Block block, Preparation prepare, float lr) {
  const auto [p, state, g, count] = block;
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) p[i] -= lr * prepare(g[i], p[i]);
}

TRIREME_SIMD void momentum(Block block, Preparation prepare, float lr, float keep, float take) {
  const auto [p, state, g, count] = block;
  float* const buffer = state[0];
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    buffer[i] = buffer[i] * keep + take * prepare(g[i], p[i]);
    p[i] -= lr * buffer[i];
  }
}

TRIREME_SIMD void nesterov(Block block, Preparation prepare, float lr, float keep, float ahead) {
  const auto [p, state, g, count] = block;
  float* const buffer = state[0];
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = prepare(g[i], p[i]);
    buffer[i] = buffer[i] * keep + gradient;
    p[i] -= lr * (gradient + ahead * buffer[i]);
  }
}

TRIREME_SIMD void adagrad(Block block, Preparation prepare, float lr, float epsilon) {
  const auto [p, state, g, count] = block;
  float* const sum = state[0];
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = prepare(g[i], p[i]);
    sum[i] += gradient * gradient;
    p[i] -= lr * gradient / (std::sqrt(sum[i]) + epsilon);
  }
}

TRIREME_SIMD void rmsprop(Block block, Preparation prepare, float lr, float keep, float take, float epsilon) {
  const auto [p, state, g, count] = block;
  float* const square = state[0];
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = prepare(g[i], p[i]);
    square[i] = square[i] * keep + take * gradient * gradient;
    p[i] -= lr * gradient / (std::sqrt(square[i]) + epsilon);
  }
}

struct AdamConstants {
  float keep1, take1, keep2, take2;
  float shrink;        ///< factor for the parameter: 1 except with AdamW's decay
  float step_size;     ///< lr / (1 - beta1^step)
  float inverse_root;  ///< 1 / sqrt(1 - beta2^step)
  float epsilon;
};

TRIREME_SIMD void adam(Block block, Preparation prepare, AdamConstants c) {
  const auto [p, state, g, count] = block;
  float* const mean = state[0];
  float* const square = state[1];
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = prepare(g[i], p[i]);
    mean[i] = mean[i] * c.keep1 + c.take1 * gradient;
    square[i] = square[i] * c.keep2 + c.take2 * gradient * gradient;
    p[i] = p[i] * c.shrink - c.step_size * mean[i] / (std::sqrt(square[i]) * c.inverse_root + c.epsilon);
  }
}

struct FtrlConstants {
  float lr, beta;
  float l1, l2;  ///< times lr
};

/// FTRL-Proximal with both sides of the paper's closed form multiplied by the learning rate: z here is alpha * z there.
/// For a constant rate that is the same. With a schedule the paper's parameters would move even without a gradient (to
/// zero as the rate goes to zero); these do not.
TRIREME_SIMD void ftrl(Block block, Preparation prepare, FtrlConstants c) {
  const auto [p, state, g, count] = block;
  float* const z = state[0];
  float* const n = state[1];
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = prepare(g[i], p[i]);
    const float sum = n[i] + gradient * gradient;
    const float root = std::sqrt(sum);
    const float moved = z[i] + c.lr * gradient - (root - std::sqrt(n[i])) * p[i];
    const float magnitude = std::fabs(moved) - c.l1;
    const float shrunk = magnitude > 0 ? magnitude : 0.0f;
    const float divisor = c.beta + root + c.l2;
    const float solved = std::copysign(shrunk, -moved) / divisor;
    p[i] = divisor == 0 ? p[i] : solved;  // no gradient yet and no smoothing: 0 / 0
    z[i] = moved;
    n[i] = sum;
  }
}

/// Sets the state from which FTRL yields the current parameters: the closed form, solved for z at n = 0.
TRIREME_SIMD void start_ftrl(Block block, FtrlConstants c) {
  const auto [p, state, g, count] = block;
  float* const z = state[0];
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    const float l1 = p[i] == 0 ? 0.0f : std::copysign(c.l1, p[i]);
    z[i] = -p[i] * (c.beta + c.l2) - l1;
  }
}

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
TRIREME_SIMD void mark_small(const float* p, float* pruned, std::size_t count, float below) {
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) pruned[i] = std::fabs(p[i]) < below ? 1.0f : pruned[i];
}

TRIREME_SIMD void clear_pruned(float* p, const float* pruned, std::size_t count) {
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) p[i] = pruned[i] != 0 ? 0.0f : p[i];
}

TRIREME_SIMD void average(const float* p, float* mean, std::size_t count, float keep, float take) {
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) mean[i] = mean[i] * keep + take * p[i];
}

void apply_rule(const UpdateConfig& config, const UpdateInput& input, Block block) {
  const Preparation prepare = preparation(config, input);
  const bool first = input.step == 1;
  const float lr = static_cast<float>(input.lr);
  const float keep = static_cast<float>(config.momentum);
  const float epsilon = static_cast<float>(effective_epsilon(config));
  switch (config.rule) {
    case Rule::kSgd:
      return sgd(block, prepare, lr);
    case Rule::kMomentum:  // 0 times the zero buffer, plus the whole gradient
      return momentum(block, prepare, lr, keep, first ? 1.0f : static_cast<float>(1 - config.dampening));
    case Rule::kNesterov:
      return nesterov(block, prepare, lr, keep, keep);
    case Rule::kAdagrad:
      return adagrad(block, prepare, lr, epsilon);
    case Rule::kRmsProp:
      return rmsprop(block, prepare, lr, static_cast<float>(config.alpha), static_cast<float>(1 - config.alpha),
                     epsilon);
    case Rule::kAdam:
    case Rule::kAdamW:
      return adam(block, prepare, adam_constants(config, input));
    case Rule::kFtrl:
      if (first) start_ftrl(block, ftrl_constants(config, input));
      return ftrl(block, prepare, ftrl_constants(config, input));
  }
}

}  // namespace

void apply_update(const UpdateConfig& config, const UpdateInput& input, std::span<float> parameters, StateArrays state,
                  std::span<const float> gradient) {
  TRIREME_CHECK(parameters.size() == gradient.size() && input.step > 0, "{} parameters, {} gradients, step {}",
                parameters.size(), gradient.size(), input.step);
  const std::size_t arrays = state_floats(config);
  for (std::size_t k = 0; k < arrays; ++k) {
    TRIREME_CHECK(state[k] != nullptr, "array {} of rule {}", k, to_string(config.rule));
  }
  const Block whole{parameters.data(), state, gradient.data(), parameters.size()};
  if (!config.prunes && config.ema <= 0) return apply_rule(config, input, whole);

  // Block by block, so that what follows the rule finds it in the first-level cache.
  float* const pruned = config.prunes ? state[arrays - 1] : nullptr;
  float* const mean = config.ema > 0 ? state[*average_array(config)] : nullptr;
  const float keep = input.step == 1 ? 0.0f : static_cast<float>(config.ema);
  const float take = input.step == 1 ? 1.0f : static_cast<float>(1 - config.ema);
  for (std::size_t begin = 0; begin < parameters.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, parameters.size() - begin);
    Block block{parameters.data() + begin, {}, gradient.data() + begin, count};
    for (std::size_t k = 0; k < arrays; ++k) block.state[k] = state[k] + begin;
    if (pruned != nullptr) mark_small(block.parameters, pruned + begin, count, static_cast<float>(input.prune_below));
    apply_rule(config, input, block);
    if (pruned != nullptr) clear_pruned(block.parameters, pruned + begin, count);
    if (mean != nullptr) average(block.parameters, mean + begin, count, keep, take);
    if (pruned != nullptr && mean != nullptr) clear_pruned(mean + begin, pruned + begin, count);
  }
}

}  // namespace trireme::optim
