#pragma once

#include <functional>
#include <span>
#include <vector>

#include "trireme/dataset.h"

namespace trireme::data {

/// A sample of one of several datasets.
struct Place {
  std::size_t source = 0;
  std::uint64_t index = 0;
};

/// Fills `out` with samples that `place` finds in several datasets of one schema: one read of each, then a copy into
/// the order asked for.
void gather(const std::vector<DatasetPtr>& sources, const Schema& schema, std::span<const std::uint64_t> indices,
            Batch& out, std::uint64_t epoch, const std::function<Place(std::uint64_t)>& place);

}  // namespace trireme::data
