#include <algorithm>
#include <new>

#include "trireme/dataset.h"

#include "base/error.h"

namespace trireme::data {
namespace {

constexpr std::align_val_t kAlignment{64};

std::shared_ptr<std::byte> on_heap(std::size_t bytes) {
  return {static_cast<std::byte*>(::operator new(bytes, kAlignment)),
          [](std::byte* memory) { ::operator delete(memory, kAlignment); }};
}

}  // namespace

void Batch::make_room(const Schema& schema, std::size_t samples, std::span<const std::int64_t> longest) {
  schema_ = schema;
  samples_ = samples;
  columns_.resize(schema.size());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    Column& column = columns_[i];
    const Field& field = schema[i];
    const bool varies = field.varies();
    column.shape.assign(1, static_cast<std::int64_t>(samples));
    column.shape.insert(column.shape.end(), field.shape.begin(), field.shape.end());
    if (varies) column.shape[1] = longest[i];
    column.lengths.assign(varies ? samples : 0, 0);
    column.size = samples * field.elements() * size_of(field.dtype);
    if (varies) column.size *= static_cast<std::size_t>(longest[i]);
    if (column.size <= column.capacity) continue;
    column.memory = allocate_ ? allocate_(column.size) : on_heap(column.size);
    column.capacity = column.size;
  }
}

std::vector<std::int64_t> Batch::longest() const {
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < columns_.size(); ++i) result.push_back(schema_[i].varies() ? columns_[i].shape[1] : 0);
  return result;
}

void Batch::pad(std::size_t field) {
  const Field& meaning = schema_[field];
  const auto set = [&]<typename T>(T value) {
    const std::size_t unit = meaning.elements();
    const std::size_t each = static_cast<std::size_t>(columns_[field].shape[1]) * unit;
    const std::span<T> all = {reinterpret_cast<T*>(columns_[field].memory.get()), samples_ * each};
    for (std::size_t i = 0; i < samples_; ++i) {
      const std::size_t length = static_cast<std::size_t>(columns_[field].lengths[i]) * unit;
      std::ranges::fill(all.subspan(i * each + length, each - length), value);
    }
  };
  switch (meaning.dtype) {
    case DType::kF32:
      return set(static_cast<float>(meaning.padding));
    case DType::kF64:
      return set(meaning.padding);
    case DType::kI64:
      return set(static_cast<std::int64_t>(meaning.padding));
    case DType::kI32:
      return set(static_cast<std::int32_t>(meaning.padding));
    case DType::kI16:
      return set(static_cast<std::int16_t>(meaning.padding));
    case DType::kF16:
    case DType::kBF16:
      return set(std::uint16_t{0});
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return set(static_cast<std::uint8_t>(meaning.padding));
  }
}

void Batch::reshape(const Schema& schema, std::size_t samples) {
  TRIREME_CHECK(schema.size() == columns_.size(), "a batch of {} fields has no other number of them", columns_.size());
  schema_ = schema;
  samples_ = samples;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    Column& column = columns_[i];
    column.shape.assign(1, static_cast<std::int64_t>(samples));
    column.shape.insert(column.shape.end(), schema[i].shape.begin(), schema[i].shape.end());
    const std::size_t bytes = samples * schema[i].elements() * size_of(schema[i].dtype);
    TRIREME_CHECK(bytes == column.size, "field '{}' has {} bytes, not {}", schema[i].name, column.size, bytes);
  }
}

Batch& Batch::scratch() {
  if (!scratch_) scratch_ = std::make_unique<Batch>();
  return *scratch_;
}

void Batch::check_type(std::size_t field, DType asked) const {
  if (schema_[field].dtype == asked) return;
  fail<InvalidArgument>("the numbers of field '{}' are {}, not {}", schema_[field].name, name_of(schema_[field].dtype),
                        name_of(asked));
}

}  // namespace trireme::data
