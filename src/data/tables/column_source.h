#pragma once

#include <cstdint>

#include "trireme/dataset.h"

namespace trireme::data {

/// A dataset that can read some neighbouring numbers of a field without the others: features that are spread over
/// workers are then never in one place. `columns` (transforms.h) uses it, and checks the arguments.
class ColumnSource {
 public:
  virtual ~ColumnSource() = default;

  /// Returns the same samples with only the numbers [first, first + count) of each in `field`, which becomes flat.
  virtual DatasetPtr only_columns(std::size_t field, std::uint64_t first, std::uint64_t count) const = 0;
};

}  // namespace trireme::data
