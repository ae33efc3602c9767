#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace trireme::data {

/// Some features of every sample: what one worker sees when features are spread over workers. Samples become flat:
/// shape {columns}, whatever the shape of the source.
class Columns : public Dataset {
 public:
  /// Feature j is feature `columns[j]` of the source, counted in row-major order. Throws InvalidArgument unless
  /// `columns` is non-empty, strictly increasing and within the source.
  Columns(std::shared_ptr<const Dataset> source, std::vector<std::uint64_t> columns);

  std::uint64_t size() const override { return source_->size(); }
  const std::vector<std::int64_t>& sample_shape() const override { return shape_; }
  std::int64_t classes() const override { return source_->classes(); }
  void read(std::span<const std::uint64_t> indices, Batch& out) const override;
  std::string describe() const override;

 private:
  std::shared_ptr<const Dataset> source_;
  std::vector<std::uint64_t> columns_;
  std::vector<std::int64_t> shape_;
};

}  // namespace trireme::data
