#include "data/tables/field_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/numbers/half.h"

namespace trireme::data {
namespace {

template <typename T>
T element_at(std::span<const std::byte> bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

/// How many neighbouring elements share a Moments.
std::size_t shared_by(const Field& field) {
  const std::size_t elements = field.elements();
  if (field.varies()) return elements;
  if (field.shape.size() == 3) return elements / static_cast<std::size_t>(field.shape.front());
  return elements <= FieldStatistics::kMostElements ? 1 : elements;
}

FieldStatistics begin(const Field& field) {
  FieldStatistics statistics{.field = field};
  if (field.classes.empty()) {
    statistics.quantities.resize(field.varies() ? 1 : field.elements() / shared_by(field));
  } else {
    statistics.counts.resize(field.classes.size());
  }
  return statistics;
}

void add(FieldStatistics& statistics, const Batch& batch, std::size_t index) {
  const Field& field = statistics.field;
  const std::span<const std::byte> bytes = batch.bytes(index);
  const std::size_t each = bytes.size() / size_of(field.dtype) / batch.size();
  const std::size_t shared = shared_by(field);
  for (std::size_t sample = 0; sample < batch.size(); ++sample) {
    std::size_t held = each;
    if (field.varies()) {
      const std::int64_t length = batch.lengths(index)[sample];
      statistics.lengths.add(static_cast<double>(length));
      held = static_cast<std::size_t>(length) * field.elements();
    }
    for (std::size_t i = 0; i < held; ++i) {
      const double value = number_at(field.dtype, bytes, sample * each + i);
      if (field.classes.empty()) {
        statistics.quantities[field.varies() ? 0 : i / shared].add(value);
      } else {
        ++statistics.counts[field.classes.size() == 1 ? 0 : i][static_cast<std::int64_t>(value)];
      }
    }
  }
}

}  // namespace

void Moments::add(double value) {
  if (!std::isfinite(value)) {
    ++not_finite_;
    return;
  }
  least_ = count_ == 0 ? value : std::min(least_, value);
  most_ = count_ == 0 ? value : std::max(most_, value);
  ++count_;
  const double apart = value - mean_;
  mean_ += apart / static_cast<double>(count_);
  squares_ += apart * (value - mean_);
}

double Moments::deviation() const { return count_ == 0 ? 0 : std::sqrt(squares_ / static_cast<double>(count_)); }

double number_at(DType dtype, std::span<const std::byte> bytes, std::size_t i) {
  switch (dtype) {
    case DType::kF32:
      return element_at<float>(bytes, i);
    case DType::kF64:
      return element_at<double>(bytes, i);
    case DType::kF16:
      return f16_to_f32(element_at<std::uint16_t>(bytes, i));
    case DType::kBF16:
      return bf16_to_f32(element_at<std::uint16_t>(bytes, i));
    case DType::kI8:
      return element_at<std::int8_t>(bytes, i);
    case DType::kU8:
    case DType::kBool:
      return element_at<std::uint8_t>(bytes, i);
    case DType::kI16:
      return element_at<std::int16_t>(bytes, i);
    case DType::kI32:
      return element_at<std::int32_t>(bytes, i);
    case DType::kI64:
      return static_cast<double>(element_at<std::int64_t>(bytes, i));
  }
  return 0;
}

std::vector<FieldStatistics> statistics_of(const Dataset& samples) {
  std::vector<FieldStatistics> all;
  for (const Field& field : samples.schema().fields()) all.push_back(begin(field));
  Batch batch;
  std::vector<std::uint64_t> rows;
  for (std::uint64_t first = 0; first < samples.size(); first += rows.size()) {
    rows.resize(static_cast<std::size_t>(std::min<std::uint64_t>(256, samples.size() - first)));
    std::iota(rows.begin(), rows.end(), first);
    samples.read(rows, batch);
    for (std::size_t i = 0; i < all.size(); ++i) add(all[i], batch, i);
  }
  return all;
}

}  // namespace trireme::data
