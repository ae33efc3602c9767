#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace trireme::data {

/// Some samples of a dataset, renumbered 0, 1, 2 in the order given.
class Subset : public Dataset {
 public:
  /// Sample i is sample `rows[i]` of `source`. Throws InvalidArgument if a row does not exist there.
  Subset(std::shared_ptr<const Dataset> source, std::vector<std::uint64_t> rows);

  std::uint64_t size() const override { return rows_.size(); }
  const std::vector<std::int64_t>& sample_shape() const override { return source_->sample_shape(); }
  std::int64_t classes() const override { return source_->classes(); }
  void read(std::span<const std::uint64_t> indices, Batch& out) const override;
  std::string describe() const override;

 private:
  std::shared_ptr<const Dataset> source_;
  std::vector<std::uint64_t> rows_;
};

}  // namespace trireme::data
