#include <algorithm>
#include <array>
#include <utility>

#include "trireme/sources.h"

#include "base/error.h"
#include "base/random.h"

namespace trireme::data {
namespace {

constexpr std::size_t kSide = 28;
constexpr std::size_t kPixels = kSide * kSide;
constexpr std::size_t kClasses = 10;
constexpr std::size_t kVariants = 2;
constexpr std::size_t kShifts = 7;                    // a sample shows its pattern shifted by up to 3 pixels each way
constexpr std::size_t kCanvas = kSide + kShifts - 1;  // so patterns are drawn larger than samples
constexpr std::size_t kCell = 5;                      // pixels between the knots of a pattern
constexpr float kNoise = 0.6f;
constexpr float kDistraction = 0.5f;

using Pattern = std::array<float, kCanvas * kCanvas>;

/// Draws a smooth random field: uniform values of deviation 1 at the knots of a coarse grid, interpolated between them.
Pattern draw_pattern(RandomStream& random) {
  constexpr std::size_t kKnots = (kCanvas - 1) / kCell + 2;
  std::array<std::array<float, kKnots>, kKnots> knots;
  for (auto& row : knots) {
    for (float& knot : row) knot = static_cast<float>(3.4641016 * (random.uniform() - 0.5));
  }
  Pattern pattern;
  for (std::size_t y = 0; y < kCanvas; ++y) {
    for (std::size_t x = 0; x < kCanvas; ++x) {
      const auto& above = knots[y / kCell];
      const auto& below = knots[y / kCell + 1];
      const std::size_t k = x / kCell;
      const float right = static_cast<float>(x % kCell) / kCell;
      const float down = static_cast<float>(y % kCell) / kCell;
      pattern[y * kCanvas + x] = (above[k] * (1 - right) + above[k + 1] * right) * (1 - down) +
                                 (below[k] * (1 - right) + below[k + 1] * right) * down;
    }
  }
  return pattern;
}

/// The patterns of all classes; both parts of a split share them.
struct Patterns {
  std::array<std::array<Pattern, kVariants>, kClasses> of_class;

  explicit Patterns(std::uint64_t seed) {
    RandomStream random(mix_seed(seed, 0));
    for (auto& variants : of_class) {
      for (Pattern& pattern : variants) pattern = draw_pattern(random);
    }
  }
};

/// Adds one of the variants of a class, shifted at random, to `pixels`.
void add_pattern(const std::array<Pattern, kVariants>& variants, float contrast, RandomStream& random, float* pixels) {
  const Pattern& pattern = variants[random.below(kVariants)];
  const std::uint64_t top = random.below(kShifts);
  const std::uint64_t left = random.below(kShifts);
  for (std::size_t y = 0; y < kSide; ++y) {
    const float* row = pattern.data() + (top + y) * kCanvas + left;
    for (std::size_t x = 0; x < kSide; ++x) *pixels++ += contrast * row[x];
  }
}

/// Sets `pixels` to noise of mean 0 and deviation kNoise: sums of four random bytes, close enough to normally
/// distributed and twenty times cheaper, so that generating samples does not slow down training.
void draw_noise(RandomStream& random, float* pixels) {
  constexpr float kMean = 4 * 127.5f;
  constexpr float kDeviation = 147.8f;  // of four bytes: sqrt(4 * (256^2 - 1) / 12)
  for (std::size_t i = 0; i < kPixels; i += 2) {
    std::uint64_t bits = random.next();
    for (std::size_t pixel = i; pixel < i + 2; ++pixel) {
      std::uint32_t sum = 0;
      for (int byte = 0; byte < 4; ++byte, bits >>= 8) sum += bits & 0xFF;
      pixels[pixel] = (static_cast<float>(sum) - kMean) * (kNoise / kDeviation);
    }
  }
}

class Synthetic : public Dataset {
 public:
  Synthetic(const char* part, std::uint64_t samples, std::uint64_t seed, std::shared_ptr<const Patterns> patterns)
      : Dataset(Schema{{.name = "image", .shape = {1, kSide, kSide}},
                       {.name = "label", .dtype = DType::kI64, .role = Role::kTarget, .classes = {kClasses}}}),
        part_(part),
        samples_(samples),
        seed_(seed),
        patterns_(std::move(patterns)) {
    if (samples == 0) fail<InvalidArgument>("a generated {} set needs at least one sample", part);
  }

  std::uint64_t size() const override { return samples_; }
  std::string describe() const override { return fmt::format("generated {} set: {}", part_, summary()); }

 private:
  void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t /*epoch*/) const override {
    out.make_room(schema(), indices.size());
    float* pixels = out.values<float>(0).data();
    const std::span<std::int64_t> labels = out.values<std::int64_t>(1);
    for (std::size_t i = 0; i < indices.size(); ++i) labels[i] = draw_sample(indices[i], pixels + i * kPixels);
  }

  std::int64_t draw_sample(std::uint64_t index, float* pixels) const {
    RandomStream random(mix_seed(seed_, index));
    const std::uint64_t label = random.below(kClasses);
    const std::uint64_t other = (label + 1 + random.below(kClasses - 1)) % kClasses;
    const auto contrast = static_cast<float>(0.7 + 0.6 * random.uniform());
    draw_noise(random, pixels);
    add_pattern(patterns_->of_class[label], contrast, random, pixels);
    add_pattern(patterns_->of_class[other], kDistraction * contrast, random, pixels);
    return static_cast<std::int64_t>(label);
  }

  const char* part_;
  std::uint64_t samples_;
  std::uint64_t seed_;
  std::shared_ptr<const Patterns> patterns_;
};

}  // namespace

Split make_synthetic(const SyntheticOptions& options) {
  const auto patterns = std::make_shared<const Patterns>(options.seed);
  const auto part = [&](const char* name, std::uint64_t samples, std::uint64_t stream) {
    return std::make_shared<Synthetic>(name, samples, mix_seed(options.seed, stream), patterns);
  };
  return {.train = part("training", options.train_samples, 1), .test = part("test", options.test_samples, 2)};
}

}  // namespace trireme::data
