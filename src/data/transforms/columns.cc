#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "trireme/transforms.h"

#include "base/error.h"
#include "data/tables/column_source.h"

namespace trireme::data {
namespace {

/// Copies the samples of a field, whatever its type.
void copy_field(const Batch& from, std::size_t source_field, Batch& to, std::size_t field) {
  std::ranges::copy(from.bytes(source_field), to.bytes(field).begin());
  std::ranges::copy(from.lengths(source_field), to.lengths(field).begin());
}

class Columns final : public Dataset {
 public:
  Columns(DatasetPtr source, std::size_t field, std::vector<std::uint64_t> columns)
      : Dataset(chosen(*source, field, columns)),
        source_(std::move(source)),
        field_(field),
        columns_(std::move(columns)) {}

  std::uint64_t size() const override { return source_->size(); }
  std::string describe() const override {
    return fmt::format("{} of {} numbers of {} of {}", columns_.size(), source_->schema()[field_].elements(),
                       schema()[field_].name, source_->describe());
  }

 private:
  static Schema chosen(const Dataset& source, std::size_t index, const std::vector<std::uint64_t>& columns) {
    Field field = source.schema()[index];
    if (columns.empty()) fail<InvalidArgument>("no columns chosen from {}: name at least one", source.describe());
    if (field.varies()) fail<InvalidArgument>("field '{}' of {} varies in length", field.name, source.describe());
    if (std::ranges::adjacent_find(columns, std::greater_equal{}) != columns.end()) {
      fail<InvalidArgument>("columns chosen from {} must be in increasing order, each once", source.describe());
    }
    if (columns.back() >= field.elements()) {
      fail<InvalidArgument>("column {} does not exist: {} of {} has columns below {}", columns.back(), field.name,
                            source.describe(), field.elements());
    }
    if (field.classes.size() > 1) {
      std::vector<std::int64_t> kept;
      for (const std::uint64_t column : columns) kept.push_back(field.classes[column]);
      field.classes = std::move(kept);
    }
    field.shape = {static_cast<std::int64_t>(columns.size())};
    return source.schema().replaced(index, std::move(field));
  }

  void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t epoch) const override {
    Batch& read = out.scratch();
    source_->read(indices, read, epoch);
    out.make_room(schema(), indices.size(), read.longest());
    for (std::size_t i = 0; i < schema().size(); ++i) {
      if (i != field_) copy_field(read, i, out, i);
    }
    const std::size_t number = size_of(schema()[field_].dtype);
    const std::size_t each = source_->schema()[field_].elements() * number;
    const std::byte* from = read.bytes(field_).data();
    std::byte* to = out.bytes(field_).data();
    for (std::size_t sample = 0; sample < indices.size(); ++sample, from += each) {
      for (const std::uint64_t column : columns_) {
        std::memcpy(to, from + column * number, number);
        to += number;
      }
    }
  }

  DatasetPtr source_;
  std::size_t field_;
  std::vector<std::uint64_t> columns_;
};

class Selected final : public Dataset {
 public:
  Selected(DatasetPtr source, Schema schema, std::vector<std::size_t> fields)
      : Dataset(std::move(schema)), source_(std::move(source)), fields_(std::move(fields)) {}

  std::uint64_t size() const override { return source_->size(); }
  std::string describe() const override { return fmt::format("{} of {}", schema().describe(), source_->describe()); }

 private:
  void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t epoch) const override {
    Batch& read = out.scratch();
    source_->read(indices, read, epoch);
    std::vector<std::int64_t> longest;
    for (const std::size_t field : fields_) longest.push_back(read.longest()[field]);
    out.make_room(schema(), indices.size(), longest);
    for (std::size_t i = 0; i < fields_.size(); ++i) copy_field(read, fields_[i], out, i);
  }

  DatasetPtr source_;
  std::vector<std::size_t> fields_;  // where each is in the source
};

}  // namespace

DatasetPtr columns(DatasetPtr source, std::string_view field, std::vector<std::uint64_t> columns) {
  const std::size_t index = source->schema().index_of(field);
  const auto chosen = std::make_shared<Columns>(source, index, columns);
  const auto* by_column = dynamic_cast<const ColumnSource*>(source.get());
  const bool neighbours = columns.back() - columns.front() + 1 == columns.size();
  if (by_column == nullptr || !neighbours) return chosen;
  return by_column->only_columns(index, columns.front(), columns.size());
}

DatasetPtr select(DatasetPtr source, const std::vector<std::string>& inputs, const std::vector<std::string>& targets) {
  std::vector<Field> fields;
  std::vector<std::size_t> places;
  const auto take = [&](const std::vector<std::string>& names, Role role) {
    for (const std::string& name : names) {
      places.push_back(source->schema().index_of(name));
      fields.push_back(source->schema()[places.back()]);
      fields.back().role = role;
    }
  };
  take(inputs, Role::kInput);
  take(targets, Role::kTarget);
  if (fields.empty()) fail<InvalidArgument>("no fields chosen from {}: name at least one", source->describe());
  return std::make_shared<Selected>(std::move(source), std::move(fields), std::move(places));
}

}  // namespace trireme::data
