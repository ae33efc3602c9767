#include <algorithm>
#include <functional>
#include <utility>

#include "trireme/dataset.h"

#include "base/error.h"

namespace trireme::data {

Columns::Columns(std::shared_ptr<const Dataset> source, std::vector<std::uint64_t> columns)
    : source_(std::move(source)), columns_(std::move(columns)), shape_{static_cast<std::int64_t>(columns_.size())} {
  if (columns_.empty()) fail<InvalidArgument>("no columns chosen from {}: name at least one", source_->describe());
  if (std::ranges::adjacent_find(columns_, std::greater_equal{}) != columns_.end()) {
    fail<InvalidArgument>("columns chosen from {} must be in increasing order, each once", source_->describe());
  }
  if (columns_.back() >= source_->sample_elements()) {
    fail<InvalidArgument>("column {} does not exist: {} has columns below {}", columns_.back(), source_->describe(),
                          source_->sample_elements());
  }
}

void Columns::read(std::span<const std::uint64_t> indices, Batch& out) const {
  source_->read(indices, out);
  // Increasing columns never move a value to the right, so the batch is compacted in place, front to back.
  const std::size_t elements = source_->sample_elements();
  float* to = out.features.data();
  for (std::size_t sample = 0; sample < out.size(); ++sample) {
    const float* from = out.features.data() + sample * elements;
    for (const std::uint64_t column : columns_) *to++ = from[column];
  }
  out.features.resize(out.size() * columns_.size());
}

std::string Columns::describe() const {
  return fmt::format("{} of {} features of {}", columns_.size(), source_->sample_elements(), source_->describe());
}

}  // namespace trireme::data
