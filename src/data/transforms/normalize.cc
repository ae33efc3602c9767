#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "trireme/transforms.h"

#include "base/error.h"
#include "data/shape.h"

namespace trireme::data {
namespace {

Field as_floats(const Dataset& source, std::size_t field) {
  Field result = source.schema()[field];
  if (result.dtype != DType::kF32 && result.dtype != DType::kU8 && result.dtype != DType::kF64) {
    fail<InvalidArgument>("field '{}' of {} cannot be normalised: its numbers are {}, not floats or bytes", result.name,
                          source.describe(), name_of(result.dtype));
  }
  result.dtype = DType::kF32;
  result.classes.clear();
  return result;
}

/// How many neighbouring numbers share a normalisation.
std::size_t run_of(const Field& field, std::size_t count, const Dataset& source) {
  const std::size_t elements = field.elements();
  if (count == 1 || count == elements) return count == 1 ? elements : 1;
  if (field.shape.size() == 3 && static_cast<std::size_t>(field.shape.front()) == count) return elements / count;
  fail<InvalidArgument>(
      "{} normalisations do not fit field '{}' of {}: expected one, or one for each of its {} numbers", count,
      field.name, source.describe(), elements);
}

class Normalized final : public Dataset {
 public:
  Normalized(DatasetPtr source, std::size_t field, std::vector<Normalization> by)
      : Dataset(source->schema().replaced(field, as_floats(*source, field))),
        source_(std::move(source)),
        field_(field),
        from_(source_->schema()[field].dtype),
        by_(std::move(by)),
        run_(run_of(schema()[field], by_.size(), *source_)) {
    std::ranges::for_each(by_, check_normalization);
  }

  std::uint64_t size() const override { return source_->size(); }

  std::string describe() const override {
    if (by_.size() > 1) return fmt::format("{}, {} normalised", source_->describe(), schema()[field_].name);
    return fmt::format("{}, {} normalised by mean {} and deviation {}", source_->describe(), schema()[field_].name,
                       by_.front().mean, by_.front().std);
  }

 private:
  void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t epoch) const override {
    if (from_ == DType::kF32) {
      source_->read(indices, out, epoch);
      const std::span<float> values = out.values<float>(field_);
      return scale<float>(values, values);
    }
    Batch& read = out.scratch();
    source_->read(indices, read, epoch);
    out.make_room(schema(), indices.size(), read.longest());
    for (std::size_t i = 0; i < schema().size(); ++i) {
      std::ranges::copy(read.lengths(i), out.lengths(i).begin());
      if (i != field_) std::ranges::copy(read.bytes(i), out.bytes(i).begin());
    }
    const std::span<float> to = out.values<float>(field_);
    if (from_ == DType::kU8) return scale<std::uint8_t>(read.values<std::uint8_t>(field_), to);
    scale<double>(read.values<double>(field_), to);
  }

  template <typename T>
  void scale(std::span<const T> from, std::span<float> to) const {
    for (std::size_t i = 0, part = 0; i < from.size(); i += run_, part = part + 1 == by_.size() ? 0 : part + 1) {
      const auto [mean, deviation] = by_[part];
      for (std::size_t k = i; k < i + run_; ++k) to[k] = (static_cast<float>(from[k]) - mean) / deviation;
    }
  }

  DatasetPtr source_;
  std::size_t field_;
  DType from_;
  std::vector<Normalization> by_;
  std::size_t run_;
};

/// Calls `visit` with the numbers of every sample, one sample at a time.
template <typename T, typename Visit>
void for_each_sample(const Dataset& dataset, std::size_t field, Visit visit) {
  constexpr std::uint64_t kBatch = 256;
  const std::size_t elements = dataset.schema()[field].elements();
  std::vector<std::uint64_t> indices;
  Batch batch;
  for (std::uint64_t first = 0; first < dataset.size(); first += kBatch) {
    indices.resize(std::min(kBatch, dataset.size() - first));
    std::iota(indices.begin(), indices.end(), first);
    dataset.read(indices, batch);
    const std::span<const T> values = std::as_const(batch).values<T>(field);
    for (std::size_t i = 0; i < batch.size(); ++i) visit(values.subspan(i * elements, elements));
  }
}

template <typename T>
std::vector<Normalization> measure_as(const Dataset& dataset, std::size_t field) {
  const std::size_t elements = dataset.schema()[field].elements();
  const auto count = static_cast<double>(std::max<std::uint64_t>(1, dataset.size()));
  std::vector<double> means(elements);
  for_each_sample<T>(dataset, field, [&](std::span<const T> sample) {
    for (std::size_t i = 0; i < elements; ++i) means[i] += static_cast<double>(sample[i]) / count;
  });
  std::vector<double> variances(elements);  // from the known mean: the one-pass formula cancels badly
  for_each_sample<T>(dataset, field, [&](std::span<const T> sample) {
    for (std::size_t i = 0; i < elements; ++i) {
      const double apart = static_cast<double>(sample[i]) - means[i];
      variances[i] += apart * apart / count;
    }
  });
  std::vector<Normalization> result(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    const auto deviation = static_cast<float>(std::sqrt(variances[i]));
    const bool constant = deviation <= 1e-6f * std::abs(static_cast<float>(means[i])) || deviation == 0;
    result[i] = {.mean = static_cast<float>(means[i]), .std = constant ? 1.0f : deviation};
  }
  return result;
}

}  // namespace

void check_normalization(const Normalization& normalization) {
  const auto [mean, deviation] = normalization;
  if (!std::isfinite(mean) || !std::isfinite(deviation) || deviation <= 0) {
    fail<InvalidArgument>("cannot normalise with mean {} and deviation {}: both must be finite, the deviation above 0",
                          mean, deviation);
  }
}

DatasetPtr normalize(DatasetPtr source, std::string_view field, std::vector<Normalization> by) {
  const std::size_t index = source->schema().index_of(field);
  return std::make_shared<Normalized>(std::move(source), index, std::move(by));
}

std::vector<Normalization> measure(const Dataset& dataset, std::string_view field) {
  const std::size_t index = dataset.schema().index_of(field);
  switch (dataset.schema()[index].dtype) {
    case DType::kF32:
      return measure_as<float>(dataset, index);
    case DType::kF64:
      return measure_as<double>(dataset, index);
    case DType::kU8:
      return measure_as<std::uint8_t>(dataset, index);
    default:
      fail<InvalidArgument>("field '{}' of {} has no mean: its numbers are {}", field, dataset.describe(),
                            name_of(dataset.schema()[index].dtype));
  }
}

}  // namespace trireme::data
