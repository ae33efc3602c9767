#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "trireme/dataset.h"

#include "base/error.h"
#include "data/shape.h"

namespace trireme::data {
namespace {

/// Calls `visit` with the features of every sample, one sample at a time.
template <typename Visit>
void for_each_sample(const Dataset& dataset, Visit visit) {
  constexpr std::uint64_t kBatch = 256;
  const std::size_t elements = dataset.sample_elements();
  std::vector<std::uint64_t> indices;
  Batch batch;
  for (std::uint64_t first = 0; first < dataset.size(); first += kBatch) {
    indices.resize(std::min(kBatch, dataset.size() - first));
    std::iota(indices.begin(), indices.end(), first);
    dataset.read(indices, batch);
    for (std::size_t i = 0; i < batch.size(); ++i) visit(std::span(batch.features).subspan(i * elements, elements));
  }
}

}  // namespace

void check_normalization(const Normalization& normalization) {
  const auto [mean, deviation] = normalization;
  if (!std::isfinite(mean) || !std::isfinite(deviation) || deviation <= 0) {
    fail<InvalidArgument>("cannot normalise with mean {} and deviation {}: both must be finite, the deviation above 0",
                          mean, deviation);
  }
}

Normalized::Normalized(std::shared_ptr<const Dataset> source, const Normalization& normalization)
    : source_(std::move(source)), normalization_{normalization} {
  check_normalization(normalization);
}

Normalized::Normalized(std::shared_ptr<const Dataset> source, std::vector<Normalization> per_feature)
    : source_(std::move(source)), normalization_(std::move(per_feature)) {
  if (normalization_.size() != source_->sample_elements()) {
    fail<InvalidArgument>("{} normalisations do not fit {}: expected one for each of its {} features",
                          normalization_.size(), source_->describe(), source_->sample_elements());
  }
  std::ranges::for_each(normalization_, check_normalization);
}

void Normalized::read(std::span<const std::uint64_t> indices, Batch& out) const {
  source_->read(indices, out);
  if (normalization_.size() == 1) {
    const auto [mean, deviation] = normalization_.front();
    for (float& value : out.features) value = (value - mean) / deviation;
    return;
  }
  float* value = out.features.data();
  for (std::size_t sample = 0; sample < out.size(); ++sample) {
    for (const auto& [mean, deviation] : normalization_) {
      *value = (*value - mean) / deviation;
      ++value;
    }
  }
}

std::string Normalized::describe() const {
  if (normalization_.size() > 1) return source_->describe() + ", each feature normalised";
  return fmt::format("{}, normalised by mean {} and deviation {}", source_->describe(), normalization_.front().mean,
                     normalization_.front().std);
}

std::vector<Normalization> measure_features(const Dataset& dataset) {
  const std::size_t elements = dataset.sample_elements();
  const auto count = static_cast<double>(std::max<std::uint64_t>(1, dataset.size()));
  std::vector<double> means(elements);
  for_each_sample(dataset, [&](std::span<const float> sample) {
    for (std::size_t i = 0; i < elements; ++i) means[i] += sample[i] / count;
  });
  std::vector<double> variances(elements);  // from the known mean: the one-pass formula cancels badly
  for_each_sample(dataset, [&](std::span<const float> sample) {
    for (std::size_t i = 0; i < elements; ++i) variances[i] += (sample[i] - means[i]) * (sample[i] - means[i]) / count;
  });
  std::vector<Normalization> result(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    const auto deviation = static_cast<float>(std::sqrt(variances[i]));
    const bool constant = deviation <= 1e-6f * std::abs(static_cast<float>(means[i])) || deviation == 0;
    result[i] = {.mean = static_cast<float>(means[i]), .std = constant ? 1.0f : deviation};
  }
  return result;
}

}  // namespace trireme::data
