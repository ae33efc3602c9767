#include <algorithm>
#include <utility>

#include "trireme/dataset.h"

#include "base/error.h"

namespace trireme::data {

Subset::Subset(std::shared_ptr<const Dataset> source, std::vector<std::uint64_t> rows)
    : source_(std::move(source)), rows_(std::move(rows)) {
  for (const std::uint64_t row : rows_) {
    if (row >= source_->size()) {
      fail<InvalidArgument>("row {} cannot be in a subset: {} has rows below {}", row, source_->describe(),
                            source_->size());
    }
  }
}

void Subset::read(std::span<const std::uint64_t> indices, Batch& out) const {
  check_indices(indices);
  std::vector<std::uint64_t> translated(indices.size());
  std::ranges::transform(indices, translated.begin(), [&](std::uint64_t index) { return rows_[index]; });
  source_->read(translated, out);
}

std::string Subset::describe() const { return fmt::format("{} samples out of {}", size(), source_->describe()); }

}  // namespace trireme::data
