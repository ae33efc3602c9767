#include <utility>

#include "trireme/transforms.h"

#include "base/error.h"

namespace trireme::data {
namespace {

Schema in_runs(const Dataset& source, std::uint64_t length) {
  std::vector<Field> fields(source.schema().fields().begin(), source.schema().fields().end());
  for (Field& field : fields) {
    if (field.varies()) {
      fail<InvalidArgument>("field '{}' of {} varies in length already: it cannot be put into windows", field.name,
                            source.describe());
    }
    if (field.classes.size() > 1) {
      std::vector<std::int64_t> once = std::move(field.classes);
      field.classes.clear();
      for (std::uint64_t i = 0; i < length; ++i) field.classes.insert(field.classes.end(), once.begin(), once.end());
    }
    field.shape.insert(field.shape.begin(), static_cast<std::int64_t>(length));
  }
  return fields;
}

class Windows final : public Dataset {
 public:
  Windows(DatasetPtr source, std::uint64_t length, std::uint64_t stride)
      : Dataset(in_runs(*source, length)), source_(std::move(source)), length_(length), stride_(stride) {}

  std::uint64_t size() const override { return (source_->size() - length_) / stride_ + 1; }
  std::string describe() const override {
    return fmt::format("{} windows of {} out of {}", size(), length_, source_->describe());
  }

 private:
  /// The samples of a window are neighbours in the buffer as well, so nothing has to be moved.
  void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t epoch) const override {
    std::vector<std::uint64_t> rows;
    rows.reserve(indices.size() * length_);
    for (const std::uint64_t index : indices) {
      for (std::uint64_t i = 0; i < length_; ++i) rows.push_back(index * stride_ + i);
    }
    source_->read(rows, out, epoch);
    out.reshape(schema(), indices.size());
  }

  DatasetPtr source_;
  std::uint64_t length_;
  std::uint64_t stride_;
};

}  // namespace

DatasetPtr windows(DatasetPtr source, std::uint64_t length, std::uint64_t stride) {
  if (length == 0) fail<InvalidArgument>("windows of 0 samples: give a length from 1 on");
  if (source->size() < length) {
    fail<InvalidArgument>("{} has no window of {}: it is too short", source->describe(), length);
  }
  return std::make_shared<Windows>(std::move(source), length, stride > 0 ? stride : length);
}

}  // namespace trireme::data
