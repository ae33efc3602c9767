#include <algorithm>
#include <cstring>
#include <utility>

#include "trireme/transforms.h"

#include "base/error.h"
#include "data/classes.h"

namespace trireme::data {
namespace {

bool is_whole(DType dtype) {
  return dtype == DType::kI8 || dtype == DType::kU8 || dtype == DType::kI16 || dtype == DType::kI32 ||
         dtype == DType::kBool;
}

template <typename T>
void widen_from(std::span<const std::byte> from, std::span<std::int64_t> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    T value;
    std::memcpy(&value, from.data() + i * sizeof(T), sizeof(T));
    to[i] = value;
  }
}

void widen(DType dtype, std::span<const std::byte> from, std::span<std::int64_t> to) {
  switch (dtype) {
    case DType::kI8:
      return widen_from<std::int8_t>(from, to);
    case DType::kI16:
      return widen_from<std::int16_t>(from, to);
    case DType::kI32:
      return widen_from<std::int32_t>(from, to);
    default:
      return widen_from<std::uint8_t>(from, to);
  }
}

class SelectedFields final : public Dataset {
 public:
  SelectedFields(DatasetPtr source, std::vector<Field> fields)
      : Dataset(Schema(std::move(fields))), source_(std::move(source)) {
    for (const Field& field : schema().fields()) {
      const std::size_t from = source_->schema().index_of(field.name);
      const Field& had = source_->schema()[from];
      const bool widened = is_whole(had.dtype) && field.dtype == DType::kI64;
      const bool reshaped = !had.varies() && !field.varies() && had.elements() == field.elements();
      if ((had.dtype != field.dtype && !widened) || (had.shape != field.shape && !reshaped)) {
        fail<InvalidArgument>("field '{}' is {}, and cannot be {}", field.name, had.describe(), field.describe());
      }
      if (!field.classes.empty() && had.classes != field.classes) checked_.push_back(from_.size());
      direct_ = direct_ && from == from_.size() && !widened && !field.varies();
      from_.push_back(from);
    }
    direct_ = direct_ && from_.size() == source_->schema().size();
  }

  std::uint64_t size() const override { return source_->size(); }
  std::string describe() const override {
    const std::string whole = source_->describe();
    const std::size_t name = whole.find(": ");
    return name == std::string::npos ? whole : whole.substr(0, name + 2) + summary();
  }

 private:
  void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t epoch) const override {
    if (direct_) {
      source_->read(indices, out, epoch);
      out.reshape(schema(), indices.size());
    } else {
      copy(indices, out, epoch);
    }
    for (const std::size_t field : checked_) {
      try {
        check_classes(schema()[field], out.bytes(field), source_->describe());
      } catch (const InvalidArgument& problem) {
        throw Corrupt(problem.what());
      }
    }
  }

  void copy(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t epoch) const {
    Batch& read = out.scratch();
    source_->read(indices, read, epoch);
    const std::vector<std::int64_t> all_longest = read.longest();
    std::vector<std::int64_t> longest;
    for (const std::size_t from : from_) longest.push_back(all_longest[from]);
    out.make_room(schema(), indices.size(), longest);
    for (std::size_t i = 0; i < from_.size(); ++i) {
      std::ranges::copy(read.lengths(from_[i]), out.lengths(i).begin());
      const DType had = source_->schema()[from_[i]].dtype;
      if (had != schema()[i].dtype) {
        widen(had, std::as_const(read).bytes(from_[i]), out.values<std::int64_t>(i));
      } else {
        std::ranges::copy(std::as_const(read).bytes(from_[i]), out.bytes(i).begin());
      }
    }
  }

  DatasetPtr source_;
  std::vector<std::size_t> from_;     ///< by field, where it is in the source
  std::vector<std::size_t> checked_;  ///< fields whose classes are new
  bool direct_ = true;                ///< only roles and classes differ
};

}  // namespace

DatasetPtr select(DatasetPtr source, std::vector<Field> fields) {
  return std::make_shared<SelectedFields>(std::move(source), std::move(fields));
}

}  // namespace trireme::data
