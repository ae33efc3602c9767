#include <algorithm>
#include <numeric>
#include <utility>

#include "trireme/transforms.h"

#include "base/error.h"

namespace trireme::data {

DatasetPtr cache(const DatasetPtr& source, std::uint64_t max_bytes) {
  const Schema& schema = source->schema();
  std::uint64_t each = 0;
  for (const Field& field : schema.fields()) {
    if (field.varies()) {
      fail<InvalidArgument>("{} cannot be kept in memory: field '{}' varies in length", source->describe(), field.name);
    }
    each += field.elements() * size_of(field.dtype);
  }
  if (each > max_bytes / std::max<std::uint64_t>(1, source->size())) {
    fail<InvalidArgument>("{} needs {} bytes in memory, more than the {} allowed", source->describe(),
                          each * source->size(), max_bytes);
  }
  constexpr std::uint64_t kBatch = 1024;
  std::vector<std::vector<std::byte>> kept(schema.size());
  std::vector<std::uint64_t> indices;
  Batch batch;
  for (std::uint64_t first = 0; first < source->size(); first += kBatch) {
    indices.resize(std::min(kBatch, source->size() - first));
    std::iota(indices.begin(), indices.end(), first);
    source->read(indices, batch);
    for (std::size_t field = 0; field < schema.size(); ++field) {
      kept[field].insert(kept[field].end(), batch.bytes(field).begin(), batch.bytes(field).end());
    }
  }
  std::vector<Column> columns;
  for (std::size_t field = 0; field < schema.size(); ++field) {
    const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(kept[field]));
    columns.push_back({.field = schema[field], .owner = owner, .bytes = *owner});
  }
  return in_memory(source->describe() + ", kept in memory", std::move(columns));
}

}  // namespace trireme::data
