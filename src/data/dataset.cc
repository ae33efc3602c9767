#include "trireme/dataset.h"

#include <limits>

#include "base/error.h"
#include "data/shape.h"

namespace trireme::data {

void Dataset::read(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t epoch) const {
  const std::uint64_t count = size();
  for (const std::uint64_t index : indices) {
    if (index >= count)
      fail<InvalidArgument>("sample {} does not exist: {} has indices below {}", index, describe(), count);
  }
  fill(indices, out, epoch);
}

std::string Dataset::summary() const { return fmt::format("{} samples of {}", size(), schema_.describe()); }

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text;
  for (const std::int64_t extent : shape) {
    text += text.empty() ? "" : "x";
    text += extent == kVaries ? "*" : std::to_string(extent);
  }
  return text;
}

std::size_t shape_elements(std::span<const std::int64_t> shape) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (shape.empty()) fail<InvalidArgument>("the shape of a sample is empty: it needs at least one extent");
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) {
    if (extent <= 0 || extent > kMost / elements) {
      fail<InvalidArgument>("{} is no shape of a sample: extents are positive and their product is at most {}",
                            shape_text(shape), kMost);
    }
    elements *= extent;
  }
  return static_cast<std::size_t>(elements);
}

}  // namespace trireme::data
