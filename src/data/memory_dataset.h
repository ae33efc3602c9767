#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"

namespace trireme::data {

/// Samples that somebody already has as numbers in memory.
class MemoryDataset : public Dataset {
 public:
  struct Content {
    std::string name;                  ///< where the samples come from: for describe()
    std::vector<std::int64_t> shape;   ///< of one sample
    std::int64_t classes = 0;          ///< labels are below this
    std::vector<float> features;       ///< row-major, sample after sample
    std::vector<std::int64_t> labels;  ///< one per sample
  };

  /// Throws InvalidArgument if features, labels, shape and classes do not fit together.
  explicit MemoryDataset(Content content);

  std::uint64_t size() const override { return content_.labels.size(); }
  const std::vector<std::int64_t>& sample_shape() const override { return content_.shape; }
  std::int64_t classes() const override { return content_.classes; }
  void read(std::span<const std::uint64_t> indices, Batch& out) const override;
  std::string describe() const override;

 private:
  Content content_;
};

}  // namespace trireme::data
