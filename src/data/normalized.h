#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace trireme::data {

/// x becomes (x - mean) / std.
struct Normalization {
  float mean = 0;
  float std = 1;
};

/// Throws InvalidArgument unless the mean is finite and the deviation is finite and positive.
void check_normalization(const Normalization& normalization);

/// A dataset with its features normalised on the way out; labels stay.
class Normalized : public Dataset {
 public:
  /// Every feature alike: pixels.
  Normalized(std::shared_ptr<const Dataset> source, const Normalization& normalization);

  /// Each feature by its own, `per_feature.size() == source->sample_elements()`: columns of a table. Throws
  /// InvalidArgument if the count differs.
  Normalized(std::shared_ptr<const Dataset> source, std::vector<Normalization> per_feature);

  std::uint64_t size() const override { return source_->size(); }
  const std::vector<std::int64_t>& sample_shape() const override { return source_->sample_shape(); }
  std::int64_t classes() const override { return source_->classes(); }
  void read(std::span<const std::uint64_t> indices, Batch& out) const override;
  std::string describe() const override;

 private:
  std::shared_ptr<const Dataset> source_;
  std::vector<Normalization> normalization_;  ///< one for all features, or one for each
};

/// Mean and deviation of each feature over all samples, in two passes of small batches. A constant feature gets
/// deviation 1, so that it becomes 0. Measure the training set and apply the result to the test set too.
std::vector<Normalization> measure_features(const Dataset& dataset);

}  // namespace trireme::data
