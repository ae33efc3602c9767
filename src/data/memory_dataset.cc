#include <algorithm>
#include <utility>

#include "trireme/dataset.h"

#include "base/error.h"
#include "data/shape.h"

namespace trireme::data {

MemoryDataset::MemoryDataset(Content content) : content_(std::move(content)) {
  const auto& [name, shape, classes, features, labels] = content_;
  const std::size_t elements = shape_elements(shape);
  if (features.size() % elements != 0 || features.size() / elements != labels.size()) {
    fail<InvalidArgument>("{}: {} numbers do not make {} samples of {}", name, features.size(), labels.size(),
                          shape_text(shape));
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || labels[i] >= classes) {
      fail<InvalidArgument>("{}: sample {} has label {}, expected 0 to {}", name, i, labels[i], classes - 1);
    }
  }
}

void MemoryDataset::read(std::span<const std::uint64_t> indices, Batch& out) const {
  check_indices(indices);
  const std::size_t elements = sample_elements();
  out.features.resize(indices.size() * elements);
  out.labels.resize(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    std::copy_n(content_.features.data() + indices[i] * elements, elements, out.features.data() + i * elements);
    out.labels[i] = content_.labels[indices[i]];
  }
}

std::string MemoryDataset::describe() const { return content_.name + ": " + summary(); }

}  // namespace trireme::data
