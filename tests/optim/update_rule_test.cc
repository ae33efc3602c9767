#include "optim/update_rule.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/random.h"

namespace trireme::optim {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::array kAllRules = {Rule::kSgd,     Rule::kMomentum, Rule::kNesterov, Rule::kAdagrad,
                                  Rule::kRmsProp, Rule::kAdam,     Rule::kAdamW,    Rule::kFtrl};

std::vector<float> random_floats(std::size_t count, std::uint64_t seed) {
  RandomStream random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

/// Parameters with their state, as a chunk of a server would hold them.
struct Model {
  UpdateConfig config;
  std::vector<float> parameters;
  std::vector<float> state = std::vector<float>(state_floats(config) * parameters.size());

  void update(const UpdateInput& input, const std::vector<float>& gradient) {
    apply_update(config, input, parameters, state_at(config, state, parameters.size()), gradient);
  }
};

TEST(Rule, NamesRoundTrip) {
  for (const Rule rule : kAllRules) EXPECT_EQ(parse_rule(to_string(rule)), rule);
}

TEST(Rule, UnknownNameIsRefusedWithASuggestionAndTheList) {
  EXPECT_THAT([] { parse_rule("adamm"); },
              ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("'adamm'"), HasSubstr("did you mean 'adam'"),
                                                   HasSubstr("sgd, momentum, nesterov, adagrad"), HasSubstr("ftrl"))));
}

TEST(Rule, StateFloats) {
  std::vector<std::size_t> floats;
  for (const Rule rule : kAllRules) floats.push_back(state_floats({.rule = rule}));
  EXPECT_THAT(floats, ElementsAre(0, 1, 1, 1, 1, 2, 2, 2));
}

TEST(UpdateConfig, TravelsAsJson) {
  const UpdateConfig sent{.rule = Rule::kAdamW, .beta2 = 0.95, .l2 = 0.01, .clip_value = 2};
  const auto received = nlohmann::json::from_msgpack(nlohmann::json::to_msgpack(nlohmann::json(sent)));
  EXPECT_EQ(received["rule"], "adamw");
  EXPECT_EQ(nlohmann::json(received.get<UpdateConfig>()), nlohmann::json(sent));
  EXPECT_THROW((nlohmann::json{{"rule", "nadam"}}.get<UpdateConfig>()), InvalidArgument);
}

TEST(UpdateConfig, ValidationNamesTheFieldAndWhatIsAllowed) {
  const auto refused = [](const UpdateConfig& config, const std::string& message) {
    EXPECT_THAT([&] { validate(config); }, ThrowsMessage<InvalidArgument>(HasSubstr(message)));
  };
  for (const Rule rule : kAllRules) EXPECT_NO_THROW(validate(UpdateConfig{.rule = rule, .l2 = 0.1}));
  refused({.momentum = 1}, "momentum is 1, but must be at least 0 and below 1");
  refused({.alpha = -0.1}, "alpha is -0.1");
  refused({.beta1 = 1.5}, "beta1 is 1.5");
  refused({.beta2 = std::nan("")}, "beta2 is nan");
  refused({.epsilon = -1e-8}, "epsilon is -1e-08");
  refused({.l2 = -1}, "l2 is -1");
  refused({.clip_value = -1}, "clip_value is -1");
  refused({.rule = Rule::kAdam, .l1 = 0.1}, "optimizer 'adam' has no L1 term");
  refused({.rule = Rule::kNesterov, .dampening = 0.1}, "optimizer 'nesterov' takes none");
  EXPECT_NO_THROW(validate(UpdateConfig{.rule = Rule::kFtrl, .l1 = 0.1}));
}

TEST(UpdateInput, ValidationNamesTheFieldAndWhatIsAllowed) {
  const auto refused = [](const UpdateInput& input, const std::string& message) {
    EXPECT_THAT([&] { validate(input); }, ThrowsMessage<InvalidArgument>(HasSubstr(message)));
  };
  EXPECT_NO_THROW(validate(UpdateInput{.lr = 0.1}));
  refused({.step = 0, .lr = 0.1}, "steps count from 1");
  refused({.lr = -0.1}, "learning rate is -0.1, but must be a finite number of at least 0");
  refused({.lr = std::numeric_limits<double>::infinity()}, "learning rate is inf");
  refused({.gradient_scale = std::nan("")}, "gradient scale is nan");
}

TEST(ApplyUpdate, ScalesThenClipsThenDecays) {
  Model model{.config = {.rule = Rule::kSgd, .l2 = 0.25, .clip_value = 1}, .parameters = {4, 4, 4}};
  model.update({.lr = 1, .gradient_scale = 0.5}, {8, -8, 1});
  EXPECT_THAT(model.parameters, ElementsAre(4 - (1 + 1), 4 - (-1 + 1), 4 - (0.5 + 1)));
}

TEST(ApplyUpdate, UsesNoFusedMultiplyAdd) {
  // A fused multiply-add would round once where two roundings are written, and only on processors that have it.
  Model model{.config = {.rule = Rule::kSgd}, .parameters = random_floats(1000, 1)};
  const std::vector<float> gradient = random_floats(1000, 2);
  std::vector<float> expected = model.parameters;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    volatile float change = 0.1f * gradient[i];
    expected[i] -= change;
  }
  model.update({.lr = 0.1}, gradient);
  EXPECT_EQ(model.parameters, expected);
}

TEST(ApplyUpdate, BlockByBlockGivesTheSameBits) {
  const std::size_t count = 1003;
  for (const Rule rule : kAllRules) {
    Model whole{.config = {.rule = rule, .l2 = 0.01, .clip_value = 2}, .parameters = random_floats(count, 3)};
    Model blocks = whole;
    for (Step step = 1; step <= 3; ++step) {
      const UpdateInput input{.step = step, .lr = 0.01, .gradient_scale = 0.5};
      const std::vector<float> gradient = random_floats(count, 10 + step);
      whole.update(input, gradient);
      for (std::size_t begin = 0; begin < count; begin += 100) {
        const std::size_t size = std::min<std::size_t>(100, count - begin);
        apply_update(blocks.config, input, std::span(blocks.parameters).subspan(begin, size),
                     state_at({.rule = rule}, blocks.state, count, begin), std::span(gradient).subspan(begin, size));
      }
    }
    EXPECT_EQ(whole.parameters, blocks.parameters) << to_string(rule);
    EXPECT_EQ(whole.state, blocks.state) << to_string(rule);
  }
}

TEST(ApplyUpdate, FirstStepOfMomentumTakesTheWholeGradient) {
  Model model{.config = {.rule = Rule::kMomentum, .momentum = 0.5, .dampening = 0.5}, .parameters = {0}};
  model.update({.step = 1, .lr = 1}, {8});
  EXPECT_THAT(model.parameters, ElementsAre(-8));
  model.update({.step = 2, .lr = 1}, {8});  // buffer = 0.5 * 8 + 0.5 * 8
  EXPECT_THAT(model.parameters, ElementsAre(-16));
}

TEST(ApplyUpdate, NesterovLooksAhead) {
  Model model{.config = {.rule = Rule::kNesterov, .momentum = 0.5}, .parameters = {0}};
  model.update({.step = 1, .lr = 1}, {8});  // buffer 8; step 8 + 0.5 * 8
  EXPECT_THAT(model.parameters, ElementsAre(-12));
  model.update({.step = 2, .lr = 1}, {8});  // buffer 12; step 8 + 0.5 * 12
  EXPECT_THAT(model.parameters, ElementsAre(-26));
}

TEST(ApplyUpdate, EveryRuleConvergesOnAQuadratic) {
  for (const Rule rule : kAllRules) {
    Model model{.config = {.rule = rule, .epsilon = 1e-8}, .parameters = {1, -1}};
    for (Step step = 1; step <= 2000; ++step) {
      const std::vector<float> gradient = model.parameters;  // of x * x / 2
      model.update({.step = step, .lr = 0.05}, gradient);
    }
    EXPECT_NEAR(model.parameters[0], 0, 0.1) << to_string(rule);
    EXPECT_NEAR(model.parameters[1], 0, 0.1) << to_string(rule);
  }
}

TEST(ApplyUpdate, NanReachesTheParameter) {
  for (const Rule rule : kAllRules) {
    Model model{.config = {.rule = rule, .clip_value = 1}, .parameters = {1, 1}};
    model.update({.lr = 0.1}, {std::nanf(""), 1});
    EXPECT_TRUE(std::isnan(model.parameters[0])) << to_string(rule);
    EXPECT_FALSE(std::isnan(model.parameters[1])) << to_string(rule);
  }
}

TEST(ApplyUpdate, NoGradientAndNoRateLeaveTheParametersAlone) {
  for (const Rule rule : kAllRules) {
    for (const double lr : {0.0, 0.1}) {
      Model model{.config = {.rule = rule}, .parameters = {1, -2, 0}};
      for (Step step = 1; step <= 3; ++step) model.update({.step = step, .lr = lr}, {0, 0, 0});
      EXPECT_THAT(model.parameters, ElementsAre(1, -2, 0)) << to_string(rule);
    }
  }
}

/// FTRL-Proximal as Algorithm 1 of McMahan et al. 2013 has it, for one coordinate, in double precision. `w0` enters
/// through z, as apply_update promises; with w0 = 0 this is the paper to the letter.
class PaperFtrl {
 public:
  PaperFtrl(double alpha, double beta, double lambda1, double lambda2, double w0)
      : alpha_(alpha), beta_(beta), lambda1_(lambda1), lambda2_(lambda2) {
    if (w0 != 0) z_ = -w0 * (beta / alpha + lambda2) - std::copysign(lambda1, w0);
  }

  double weight() const {
    if (std::abs(z_) <= lambda1_) return 0;
    return -(z_ - std::copysign(lambda1_, z_)) / ((beta_ + std::sqrt(n_)) / alpha_ + lambda2_);
  }

  void add(double g) {
    const double sigma = (std::sqrt(n_ + g * g) - std::sqrt(n_)) / alpha_;
    z_ += g - sigma * weight();
    n_ += g * g;
  }

 private:
  double alpha_, beta_, lambda1_, lambda2_;
  double z_ = 0;
  double n_ = 0;
};

void expect_as_in_the_paper(const UpdateConfig& config, std::vector<float> start) {
  const double lr = 0.05;
  Model model{.config = config, .parameters = std::move(start)};
  std::vector<PaperFtrl> paper;
  for (const float w0 : model.parameters) paper.emplace_back(lr, config.ftrl_beta, config.l1, config.l2, w0);
  for (Step step = 1; step <= 100; ++step) {
    const std::vector<float> gradient = random_floats(model.parameters.size(), 100 + step);
    model.update({.step = step, .lr = lr}, gradient);
    for (std::size_t i = 0; i < paper.size(); ++i) paper[i].add(gradient[i]);
  }
  for (std::size_t i = 0; i < paper.size(); ++i) EXPECT_NEAR(model.parameters[i], paper[i].weight(), 2e-6);
}

TEST(Ftrl, MatchesThePaperFromZero) {
  expect_as_in_the_paper({.rule = Rule::kFtrl}, std::vector<float>(500));
  expect_as_in_the_paper({.rule = Rule::kFtrl, .l1 = 3, .l2 = 0.5}, std::vector<float>(500));
}

TEST(Ftrl, StartsFromTheParametersFound) {
  expect_as_in_the_paper({.rule = Rule::kFtrl, .l1 = 0.3, .l2 = 0.1}, random_floats(500, 4));
}

TEST(Ftrl, WithoutRegularisersMatchesAdagrad) {
  Model ftrl{.config = {.rule = Rule::kFtrl, .ftrl_beta = 0.5}, .parameters = random_floats(500, 5)};
  Model adagrad{.config = {.rule = Rule::kAdagrad, .epsilon = 0.5}, .parameters = ftrl.parameters};
  for (Step step = 1; step <= 100; ++step) {
    const UpdateInput input{.step = step, .lr = 0.1 / static_cast<double>(step)};  // under any schedule
    const std::vector<float> gradient = random_floats(500, 200 + step);
    ftrl.update(input, gradient);
    adagrad.update(input, gradient);
  }
  for (std::size_t i = 0; i < 500; ++i) EXPECT_NEAR(ftrl.parameters[i], adagrad.parameters[i], 1e-5);
}

TEST(Ftrl, L1MakesParametersExactlyZero) {
  Model model{.config = {.rule = Rule::kFtrl, .l1 = 1000}, .parameters = std::vector<float>(100)};
  for (Step step = 1; step <= 10; ++step) model.update({.step = step, .lr = 0.1}, random_floats(100, step));
  EXPECT_THAT(model.parameters, Each(0.0f));
}

}  // namespace
}  // namespace trireme::optim
