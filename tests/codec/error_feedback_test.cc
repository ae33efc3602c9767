#include "codec/error_feedback.h"

#include <limits>

#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/codec/testing.h"
#include "tests/support/expect_fails.h"

namespace trireme::codec {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;

/// One worker's side of a run: gradients in, what others decode out.
struct Sender {
  Spec spec;
  std::size_t count;
  ErrorFeedback feedback{spec, count};
  std::vector<std::byte> bytes = std::vector<std::byte>(encoded_bytes(spec, count));

  std::vector<float> send(std::uint64_t key, std::span<const float> gradient) {
    feedback.encode(key, gradient, bytes);
    return decoded(spec, key, bytes, count);
  }
};

TEST(ErrorFeedback, NothingIsLostOverManySteps) {
  constexpr int kSteps = 50;
  for (const Spec& spec : kAllSpecs) {
    for (const std::size_t size : {std::size_t{1}, kBlock - 1, 5 * kBlock + 3}) {
      Sender sender{spec, size};
      std::vector<double> given(size);
      std::vector<double> arrived(size);
      for (int step = 0; step < kSteps; ++step) {
        const std::vector<float> gradient = gradient_like(size, static_cast<std::uint64_t>(step));
        const std::vector<float> received = sender.send(static_cast<std::uint64_t>(step), gradient);
        for (std::size_t i = 0; i < size; ++i) given[i] += static_cast<double>(gradient[i]);
        for (std::size_t i = 0; i < size; ++i) arrived[i] += static_cast<double>(received[i]);
      }
      const auto residual = sender.feedback.residual();
      ASSERT_EQ(residual.size(), spec.kind == Kind::kNone ? 0 : size);
      for (std::size_t i = 0; i < size; ++i) {
        const double late = residual.empty() ? 0.0 : static_cast<double>(residual[i]);
        // Each step rounds two sums whose terms are at most a few hundred times the scale of the gradient.
        const double scale = std::pow(10.0, static_cast<double>(i / 300 % 6) - 4);
        const double tolerance = kSteps * 2 * 500 * std::max(scale, spec.kind == Kind::kOneBit ? 10.0 : 0.0) * 0x1p-24;
        ASSERT_NEAR(arrived[i] + late, given[i], tolerance) << to_string(spec) << " value " << i << " of " << size;
      }
    }
  }
}

TEST(ErrorFeedback, ResidualIsInputMinusDecodedAndIsAddedToTheNext) {
  for (const Spec& spec : kAllSpecs) {
    if (spec.kind == Kind::kNone) continue;
    const std::size_t size = 4 * kBlock + 9;
    Sender sender{spec, size};
    const std::vector<float> first = gradient_like(size, 1);
    const std::vector<float> received = sender.send(1, first);
    EXPECT_EQ(received, round_trip(spec, first, 1)) << to_string(spec);  // the residual was zero
    std::vector<float> corrected = gradient_like(size, 2);
    for (std::size_t i = 0; i < size; ++i) {
      ASSERT_EQ(sender.feedback.residual()[i], first[i] - received[i]) << to_string(spec);
      corrected[i] += sender.feedback.residual()[i];
    }
    EXPECT_EQ(sender.send(2, gradient_like(size, 2)), round_trip(spec, corrected, 2)) << to_string(spec);
  }
}

TEST(ErrorFeedback, DisabledKeepsNoResidual) {
  for (Spec spec : kAllSpecs) {
    spec.error_feedback = false;
    Sender sender{spec, 1000};
    const std::vector<float> gradient = gradient_like(1000, 1);
    for (std::uint64_t step = 0; step < 3; ++step) {
      EXPECT_EQ(sender.send(step, gradient), round_trip(spec, gradient, step)) << to_string(spec);
    }
    EXPECT_THAT(sender.feedback.residual(), IsEmpty());
  }
}

TEST(ErrorFeedback, NonFiniteValuesAreSentOnceAndNotKept) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const Spec& spec : kAllSpecs) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInf, -kInf}) {
      Sender sender{spec, 2 * kBlock + 9};
      std::vector<float> gradient = gradient_like(sender.count, 1);
      sender.send(1, gradient);
      for (std::size_t i = 0; i < gradient.size(); i += 5) gradient[i] = bad;  // more than top-k or random-k send
      EXPECT_GE(count_not_finite(sender.send(2, gradient)), 1) << to_string(spec);
      EXPECT_EQ(count_not_finite(sender.feedback.residual()), 0) << to_string(spec);
      EXPECT_EQ(count_not_finite(sender.send(3, gradient_like(sender.count, 3))), 0) << to_string(spec);
    }
  }
}

TEST(ErrorFeedback, SurvivesSumsThatOverflow) {
  for (const Spec& spec : kAllSpecs) {
    Sender sender{spec, 700};
    std::vector<float> huge(sender.count, std::numeric_limits<float>::max());
    for (std::size_t i = 0; i < huge.size(); i += 3) huge[i] = -0.9f * huge[i];
    for (std::uint64_t step = 0; step < 5; ++step) {
      sender.send(step, huge);
      EXPECT_EQ(count_not_finite(sender.feedback.residual()), 0) << to_string(spec);
    }
  }
}

TEST(ErrorFeedback, UndoRevertsAnEncodeExactly) {
  for (const Spec& spec : kAllSpecs) {
    Sender sender{spec, 3000};
    Sender undisturbed{spec, 3000};
    sender.feedback.undo();  // nothing to take back yet
    for (std::uint64_t step = 0; step < 6; ++step) {
      const std::vector<float> gradient = gradient_like(3000, step);
      if (step % 2 == 1) {
        sender.send(step, gradient_like(3000, step + 100));
        sender.feedback.undo();
        sender.feedback.undo();  // taken back already
      }
      EXPECT_EQ(sender.send(step, gradient), undisturbed.send(step, gradient)) << to_string(spec);
      sender.feedback.commit();
      sender.feedback.undo();  // counted already
    }
  }
}

TEST(ErrorFeedback, ResidualIsSavedAndRestored) {
  const Spec spec{.kind = Kind::kTopK, .ratio = 0.01};
  Sender sender{spec, 1000};
  sender.send(1, gradient_like(1000, 1));
  Sender other{spec, 1000};
  other.feedback.restore(sender.feedback.residual());
  EXPECT_EQ(other.send(2, gradient_like(1000, 2)), sender.send(2, gradient_like(1000, 2)));
  other.feedback.clear();
  EXPECT_THAT(other.feedback.residual(), Each(0.0f));
  EXPECT_FAILS(other.feedback.restore(std::vector<float>(999)), InvalidArgument, "1000 values", "999");
}

/// Least squares with targets of very different curvature: loss = sum of c_i / 2 * (w_i - t_i)^2, by four workers who
/// each see their own noise. Returns the share of the loss that is left.
double loss_left(const Spec& spec, int steps, double lr) {
  constexpr std::size_t kCount = 2000;
  constexpr std::size_t kWorkers = 4;
  std::vector<Sender> workers;
  for (std::size_t i = 0; i < kWorkers; ++i) workers.push_back({spec, kCount});
  std::vector<float> weights(kCount);
  RandomStream random(1);
  const auto curvature = [](std::size_t i) { return 0.1 + 0.9 * static_cast<double>(i % 10) / 9; };
  const auto target = [](std::size_t i) { return std::sin(static_cast<double>(i)); };
  const auto loss = [&] {
    double sum = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      sum += curvature(i) / 2 * std::pow(static_cast<double>(weights[i]) - target(i), 2);
    }
    return sum;
  };
  const double before = loss();
  for (int step = 0; step < steps; ++step) {
    std::vector<float> sum(kCount);
    for (Sender& worker : workers) {
      std::vector<float> gradient(kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        const double noise = 0.2 * (random.uniform() - 0.5);
        gradient[i] = static_cast<float>(curvature(i) * (static_cast<double>(weights[i]) - target(i)) + noise);
      }
      const auto key = static_cast<std::uint64_t>(step);
      worker.feedback.encode(key, gradient, worker.bytes);
      add_decoded(spec, key, worker.bytes, sum);
    }
    for (std::size_t i = 0; i < kCount; ++i) weights[i] -= static_cast<float>(lr / kWorkers) * sum[i];
  }
  return loss() / before;
}

TEST(ErrorFeedback, TrainsAsFarAsWithoutCompression) {
  constexpr int kSteps = 1000;
  constexpr double kRate = 0.05;
  const double plain = loss_left({.kind = Kind::kNone}, kSteps, kRate);
  EXPECT_LT(plain, 1e-3);
  for (const Spec& spec : kAllSpecs) EXPECT_LT(loss_left(spec, kSteps, kRate), 10 * plain) << to_string(spec);
}

TEST(ErrorFeedback, MakesTopKConverge) {
  Spec spec{.kind = Kind::kTopK, .ratio = 0.05, .error_feedback = false};
  const double without = loss_left(spec, 300, 0.05);
  spec.error_feedback = true;
  EXPECT_LT(loss_left(spec, 300, 0.05), without / 2);
}

}  // namespace
}  // namespace trireme::codec
