#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "base/numbers/half.h"
#include "base/numbers/lanes.h"
#include "base/random.h"
#include "cuda/columns.h"
#include "cuda/cross_entropy.h"
#include "cuda/emulation.h"
#include "cuda/layer_norm.h"
#include "cuda/sums.h"
#include "cuda/update.h"
#include "optim/update_rule.h"

// The kernels, as text for a GPU, run by the emulation and compared with plain loops.

namespace trireme::cuda {
namespace {

using Floats = std::vector<float>;

Floats numbers(std::size_t count, std::uint64_t seed, float scale = 1) {
  RandomStream random(seed);
  Floats result(count);
  for (float& x : result) x = scale * static_cast<float>(random.uniform() * 2 - 1);
  return result;
}

/// An array of one of the types that kernels take.
class Typed {
 public:
  Typed(Type type, const Floats& values) : type_(type), floats_(values), halves_(values.size()) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (type == Type::kBfloat16) halves_[i] = f32_to_bf16(values[i]);
      if (type == Type::kHalf) halves_[i] = f32_to_f16(values[i]);
    }
  }
  Typed(Type type, std::size_t count) : Typed(type, Floats(count)) {}

  void* data() { return type_ == Type::kFloat ? static_cast<void*>(floats_.data()) : halves_.data(); }
  float operator[](std::size_t i) const {
    if (type_ == Type::kFloat) return floats_[i];
    return type_ == Type::kBfloat16 ? bf16_to_f32(halves_[i]) : f16_to_f32(halves_[i]);
  }

 private:
  Type type_;
  Floats floats_;
  std::vector<std::uint16_t> halves_;
};

double tolerance(Type type) { return type == Type::kFloat ? 2e-5 : type == Type::kHalf ? 2e-3 : 1.6e-2; }

class KernelTypes : public ::testing::TestWithParam<Type> {};
std::string name_of_type(const ::testing::TestParamInfo<Type>& type) {
  return type.param == Type::kFloat ? "Float" : type.param == Type::kHalf ? "Half" : "Bfloat16";
}
INSTANTIATE_TEST_SUITE_P(All, KernelTypes, ::testing::Values(Type::kFloat, Type::kBfloat16, Type::kHalf), name_of_type);

struct NormShape {
  std::int64_t rows, width;
};

/// Forward and backward of x + branch, normalised, against the formulas.
void expect_norm(NormShape shape, Type type, bool with_branch, bool with_of_sum) {
  SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.width);
  const auto [rows, width] = shape;
  const auto count = static_cast<std::size_t>(rows * width);
  const Floats x = numbers(count, 1, 3);
  Typed branch(type, numbers(count, 2));
  const Floats scale = numbers(width, 3);
  const Floats offset = numbers(width, 4);
  Floats sum(count), mean(rows), inverse(rows);
  Typed out(type, count);
  layer_norm({.rows = rows,
              .width = width,
              .type = type,
              .x = x.data(),
              .branch = with_branch ? branch.data() : nullptr,
              .scale = scale.data(),
              .offset = offset.data(),
              .sum = sum.data(),
              .out = out.data(),
              .mean = mean.data(),
              .inverse = inverse.data()},
             nullptr);
  Typed of_out(type, numbers(count, 5));
  const Floats of_sum = numbers(count, 6);
  Floats of_x(count), of_scale(width), of_offset(width), workspace(layer_norm_workspace(width));
  Typed of_branch(type, count);
  layer_norm_backward({.rows = rows,
                       .width = width,
                       .type = type,
                       .of_out = of_out.data(),
                       .of_sum = with_of_sum ? of_sum.data() : nullptr,
                       .sum = with_branch ? sum.data() : x.data(),
                       .scale = scale.data(),
                       .mean = mean.data(),
                       .inverse = inverse.data(),
                       .of_x = of_x.data(),
                       .of_branch = with_branch ? of_branch.data() : nullptr,
                       .of_scale = of_scale.data(),
                       .of_offset = of_offset.data(),
                       .workspace = workspace.data()},
                      nullptr);
  std::vector<double> expected_scale(width), expected_offset(width);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<double> total(width), normal(width), through(width);
    double middle = 0;
    double spread = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      const std::size_t at = row * width + i;
      total[i] = x[at] + (with_branch ? branch[at] : 0.0f);
      middle += total[i] / static_cast<double>(width);
      if (with_branch) {
        ASSERT_FLOAT_EQ(sum[at], static_cast<float>(total[i]));
      }
    }
    for (const double value : total) spread += (value - middle) * (value - middle) / static_cast<double>(width);
    const double steepness = 1 / std::sqrt(spread + 1e-5);
    double mean_through = 0;
    double mean_product = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      const std::size_t at = row * width + i;
      normal[i] = (total[i] - middle) * steepness;
      ASSERT_NEAR(out[at], normal[i] * scale[i] + offset[i], 4 * tolerance(type));
      through[i] = of_out[at] * scale[i];
      mean_through += through[i] / static_cast<double>(width);
      mean_product += through[i] * normal[i] / static_cast<double>(width);
      expected_scale[i] += of_out[at] * normal[i];
      expected_offset[i] += of_out[at];
    }
    for (std::int64_t i = 0; i < width; ++i) {
      const std::size_t at = row * width + i;
      const double expected =
          (with_of_sum ? of_sum[at] : 0.0f) + (through[i] - mean_through - normal[i] * mean_product) * steepness;
      ASSERT_NEAR(of_x[at], expected, 2e-5);
      if (with_branch) {
        ASSERT_NEAR(of_branch[at], expected, 4 * tolerance(type));
      }
    }
  }
  for (std::int64_t i = 0; i < width; ++i) {
    ASSERT_NEAR(of_scale[i], expected_scale[i], 1e-5 * static_cast<double>(rows));
    ASSERT_NEAR(of_offset[i], expected_offset[i], 1e-5 * static_cast<double>(rows));
  }
}

TEST_P(KernelTypes, LayerNormAndItsGradients) {
  expect_norm({.rows = 5, .width = 64}, GetParam(), true, true);
  expect_norm({.rows = 1, .width = 4}, GetParam(), true, false);
  expect_norm({.rows = 9, .width = 768}, GetParam(), true, true);
  expect_norm({.rows = 3, .width = 1000}, GetParam(), false, false);
}

TEST(Kernels, LayerNormOfWideRowsAndManyOfThem) {
  expect_norm({.rows = 2, .width = 1600}, Type::kFloat, true, true);
  expect_norm({.rows = 2, .width = 2048}, Type::kBfloat16, false, true);
  expect_norm({.rows = 2200, .width = 8}, Type::kFloat, true, true);  // more than the blocks have warps
}

/// `at_once`: the loss and its gradient in one pass.
void expect_entropy(std::int64_t rows, std::int64_t classes, std::int64_t stride, Type type, bool at_once = false) {
  SCOPED_TRACE(::testing::Message() << rows << " x " << classes << " of " << stride << ' ' << at_once);
  const Floats values = numbers(static_cast<std::size_t>(rows * stride), 7, 6);
  Typed logits(type, values);
  const Typed before(type, values);
  std::vector<std::int64_t> targets;
  for (std::int64_t row = 0; row < rows; ++row) targets.push_back((row * 31) % classes);
  const Logits all{.rows = rows,
                   .classes = classes,
                   .stride = stride,
                   .type = type,
                   .values = logits.data(),
                   .targets = targets.data()};
  Floats loss(rows), log_sum(rows);
  const float of_loss = 2.5f;
  if (at_once) {
    cross_entropy_at_once(all, of_loss, loss.data(), nullptr);
  } else {
    cross_entropy(all, loss.data(), log_sum.data(), nullptr);
    cross_entropy_backward(all, log_sum.data(), &of_loss, nullptr);
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (std::int64_t i = 0; i < classes; ++i) sum += std::exp(static_cast<double>(before[row * stride + i]));
    ASSERT_NEAR(loss[row], std::log(sum) - before[row * stride + targets[row]], 1e-4);
    for (std::int64_t i = 0; i < stride; ++i) {
      const double probability = std::exp(static_cast<double>(before[row * stride + i])) / sum;
      const double slope = (probability - (i == targets[row] ? 1 : 0)) * of_loss / static_cast<double>(rows);
      ASSERT_NEAR(logits[row * stride + i], i < classes ? slope : 0, tolerance(type)) << row << ' ' << i;
    }
  }
}

TEST_P(KernelTypes, CrossEntropyAndItsGradient) {
  expect_entropy(3, 10, 10, GetParam());      // rows that begin anywhere
  expect_entropy(2, 5000, 5120, GetParam());  // of which the end does not count
  expect_entropy(4, 4096, 4096, GetParam());
  expect_entropy(1, 1, 8, GetParam());
}

TEST_P(KernelTypes, CrossEntropyAtOnceWhereverItsRowsAreHeld) {
  const std::size_t usual = emulation::shared_memory;
  for (const std::size_t shared : {usual, std::size_t{0}}) {  // there, or in registers
    emulation::shared_memory = shared;
    expect_entropy(2, 10, 10, GetParam(), /*at_once=*/true);
    expect_entropy(2, 5000, 5120, GetParam(), /*at_once=*/true);
    expect_entropy(3, 9999, 10000, GetParam(), /*at_once=*/true);
    expect_entropy(1, 1, 8, GetParam(), /*at_once=*/true);
  }
  emulation::shared_memory = usual;
}

TEST(Kernels, CrossEntropyOfLargeLogitsStaysFinite) {
  Floats values(64, -10000.0f);
  values[7] = 10000.0f;
  const std::vector<std::int64_t> targets{7};
  Floats loss(1), log_sum(1);
  cross_entropy({.rows = 1, .classes = 64, .stride = 64, .values = values.data(), .targets = targets.data()},
                loss.data(), log_sum.data(), nullptr);
  EXPECT_EQ(loss[0], 0);
}

TEST(Kernels, CrossEntropyOfATargetThatIsNoClassIsNotANumber) {
  Floats values(16, 0.0f);
  const std::vector<std::int64_t> targets{8, -1};
  Floats loss(2), log_sum(2);
  cross_entropy({.rows = 2, .classes = 8, .stride = 8, .values = values.data(), .targets = targets.data()}, loss.data(),
                log_sum.data(), nullptr);
  EXPECT_TRUE(std::isnan(loss[0]));
  EXPECT_TRUE(std::isnan(loss[1]));
}

double gelu_slope(double x) {
  const auto gelu = [](double at) {
    return 0.5 * at * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (at + 0.044715 * at * at * at)));
  };
  return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5;
}

TEST_P(KernelTypes, ColumnSumsAndGelusGradient) {
  const Type type = GetParam();
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{1, 8}, {1000, 264}, {17, 1024}}) {
    const auto count = static_cast<std::size_t>(rows * columns);
    Typed gradient(type, numbers(count, 8));
    Typed before(type, numbers(count, 9, 3));
    Typed result(type, count);
    Floats sums(columns), of_gelu(columns), workspace(column_workspace(columns));
    const ColumnSums plain{.rows = rows,
                           .columns = columns,
                           .type = type,
                           .values = gradient.data(),
                           .sums = sums.data(),
                           .workspace = workspace.data()};
    column_sums(plain, nullptr);
    ColumnSums through = plain;
    through.sums = of_gelu.data();
    gelu_backward(through, before.data(), result.data(), nullptr);
    for (std::int64_t column = 0; column < columns; ++column) {
      double sum = 0;
      double gelu_sum = 0;
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::size_t at = row * columns + column;
        const double expected = gradient[at] * gelu_slope(before[at]);
        sum += gradient[at];
        gelu_sum += expected;
        ASSERT_NEAR(result[at], expected, tolerance(type));
      }
      ASSERT_NEAR(sums[column], sum, 1e-6 * static_cast<double>(rows) + 1e-6);
      ASSERT_NEAR(of_gelu[column], gelu_sum, 1e-5 * static_cast<double>(rows) + 1e-5);
    }
  }
}

class KernelRules : public ::testing::TestWithParam<optim::Rule> {};
INSTANTIATE_TEST_SUITE_P(All, KernelRules,
                         ::testing::Values(optim::Rule::kSgd, optim::Rule::kMomentum, optim::Rule::kNesterov,
                                           optim::Rule::kAdagrad, optim::Rule::kRmsProp, optim::Rule::kAdam,
                                           optim::Rule::kAdamW, optim::Rule::kFtrl),
                         [](const auto& rule) { return std::string(optim::to_string(rule.param)); });

/// Two parameters, of which one is in several slices; the bits of the CPU's rules, with and without averages and
/// pruning.
TEST_P(KernelRules, UpdatesHaveTheBitsOfTheCpu) {
  for (const bool extras : {false, true}) {
    optim::UpdateConfig config{.rule = GetParam(), .dampening = 0.1, .l1 = 0.01, .l2 = 0.02, .clip_value = 0.7};
    if (extras) config.ema = 0.9;
    config.prunes = extras;
    const std::size_t arrays = optim::state_floats(config);
    const std::vector<std::size_t> sizes{kSliceElements + 100, 33};
    std::vector<Floats> host, device, host_state, device_state;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      host.push_back(numbers(sizes[i], 10 + i));
      host_state.emplace_back(arrays * sizes[i]);
    }
    device = host;
    device_state = host_state;
    for (Step step = 1; step <= 3; ++step) {
      std::vector<Floats> gradients;
      std::vector<UpdateSlice> slices;
      std::vector<optim::UpdateConstants> constants;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        gradients.push_back(numbers(sizes[i], 20 * step + i, 4));
        const optim::UpdateInput input{.step = step,
                                       .lr = 0.1 / static_cast<double>(i + 1),
                                       .gradient_scale = 0.5,
                                       .prune_below = extras && step == 2 ? 0.2 : 0};
        constants.push_back(optim::update_constants(config, input));
        optim::apply_update(config, input, host[i], optim::state_at(config, host_state[i], sizes[i]), gradients[i]);
        for (std::size_t begin = 0; begin < sizes[i]; begin += kSliceElements) {
          UpdateSlice slice{.parameters = device[i].data() + begin,
                            .gradient = gradients[i].data() + begin,
                            .state = {},
                            .count = 0,
                            .constants = static_cast<std::uint32_t>(i)};
          slice.count = static_cast<std::uint32_t>(std::min<std::size_t>(kSliceElements, sizes[i] - begin));
          for (std::size_t k = 0; k < arrays; ++k) slice.state[k] = device_state[i].data() + k * sizes[i] + begin;
          slices.push_back(slice);
        }
      }
      const auto average = optim::average_array(config);
      const UpdateKind kind{.rule = config.rule,
                            .rule_arrays = static_cast<int>(arrays) - (extras ? 2 : 0),
                            .average_array = average ? static_cast<int>(*average) : -1,
                            .pruned_array = extras ? static_cast<int>(arrays) - 1 : -1};
      update(kind, slices.data(), slices.size(), constants.data(), 0.5f, nullptr);
      ASSERT_EQ(device, host) << "step " << step;
      ASSERT_EQ(device_state, host_state) << "step " << step;
    }
  }
}

TEST(Kernels, LanesAreSummedAlongTheTreeIntoEveryPart) {
  for (const std::vector<LaneRange>& lanes :
       {std::vector<LaneRange>{{0, 1}, {1, 1}}, std::vector<LaneRange>{{0, 4}, {4, 2}, {6, 2}},
        std::vector<LaneRange>{{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}}, deal_lanes(32, 32), deal_lanes(4, 4),
        deal_lanes(16, 8), deal_lanes(6, 4)}) {
    constexpr std::size_t kCount = 1000;
    std::vector<Floats> parts;
    std::vector<Partial> partials;
    for (std::size_t i = 0; i < lanes.size(); ++i) parts.push_back(numbers(kCount, 40 + i));
    for (std::size_t i = 0; i < lanes.size(); ++i) partials.push_back({lanes[i], parts[i].data()});
    Floats expected(kCount);
    tree_sum(lanes.back().end(), partials, 0, expected);
    const FoldOrder order(lanes.back().end(), std::span<const Partial>(partials));
    LaneSums sums{.count = static_cast<std::uint32_t>(lanes.size())};
    for (std::size_t i = 0; i < lanes.size(); ++i) sums.parts[i] = parts[i].data();
    std::size_t last = 0;
    order.walk([&](std::size_t part, std::size_t) { last = part; },
               [&](std::size_t, bool) { ++sums.combinations[last]; });
    sum_lanes(sums, 0, 333, nullptr);  // in slices, as ranks do
    sum_lanes(sums, 333, 3, nullptr);
    sum_lanes(sums, 336, kCount - 336, nullptr);  // which may be read four at a time
    for (const Floats& part : parts) EXPECT_EQ(part, expected);
  }
}

TEST(Kernels, SumsOfSquares) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{5000}}) {
    const Floats values = numbers(count, 50, 100);
    double expected = 0;
    for (const float value : values) expected += static_cast<double>(value) * value;
    std::vector<double> partials(kSquareBlocks);
    double result = -1;
    sum_of_squares(values.data(), count, partials.data(), &result, nullptr);
    EXPECT_NEAR(result, expected, 1e-9 * expected);
  }
}

}  // namespace
}  // namespace trireme::cuda
