#include <algorithm>
#include <cstring>
#include <utility>

#include "trireme/sources.h"

#include "base/error.h"
#include "data/classes.h"

namespace trireme::data {
namespace {

Schema schema_of(const std::vector<Column>& columns) {
  std::vector<Field> fields;
  for (const Column& column : columns) fields.push_back(column.field);
  return fields;
}

class Memory final : public Dataset {
 public:
  Memory(std::string name, std::vector<Column> columns)
      : Dataset(schema_of(columns)), name_(std::move(name)), columns_(std::move(columns)) {
    if (columns_.empty()) fail<InvalidArgument>("{}: samples need at least one field", name_);
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const Field& field = schema()[i];
      if (field.varies()) fail<InvalidArgument>("{}: field '{}' varies in length", name_, field.name);
      bytes_.push_back(field.elements() * size_of(field.dtype));
      const std::size_t held = columns_[i].bytes.size();
      if (i == 0) size_ = held / bytes_[i];
      if (held != size_ * bytes_[i]) {
        fail<InvalidArgument>("{}: {} numbers of '{}' do not make {} samples of {}", name_, held / size_of(field.dtype),
                              field.name, size_, field.describe());
      }
      check_classes(field, columns_[i].bytes, name_);
    }
  }

  std::uint64_t size() const override { return size_; }
  std::string describe() const override { return name_ + ": " + summary(); }

 private:
  void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t /*epoch*/) const override {
    out.make_room(schema(), indices.size());
    for (std::size_t field = 0; field < columns_.size(); ++field) {
      std::byte* to = out.bytes(field).data();
      const std::size_t each = bytes_[field];
      for (const std::uint64_t index : indices) {
        std::memcpy(to, columns_[field].bytes.data() + index * each, each);
        to += each;
      }
    }
  }

  std::string name_;
  std::vector<Column> columns_;
  std::vector<std::size_t> bytes_;  // of one sample, by field
  std::uint64_t size_ = 0;
};

}  // namespace

DatasetPtr in_memory(std::string name, std::vector<Column> columns) {
  return std::make_shared<Memory>(std::move(name), std::move(columns));
}

}  // namespace trireme::data
