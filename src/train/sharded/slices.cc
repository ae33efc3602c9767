#include "train/sharded/slices.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace trireme {

WholeTensor::WholeTensor(std::vector<std::int64_t> shape, std::optional<ParameterSlice> slice)
    : shape_(std::move(shape)), slice_(slice) {
  if (!slice_) {
    block_ = whole_block_ = std::max<std::uint64_t>(1, elements());
    return;
  }
  const auto dim = static_cast<std::size_t>(slice_->dim);
  const auto inner = static_cast<std::uint64_t>(
      std::accumulate(shape_.begin() + slice_->dim + 1, shape_.end(), std::int64_t{1}, std::multiplies<>()));
  block_ = static_cast<std::uint64_t>(slice_->end - slice_->begin) * inner;
  whole_block_ = static_cast<std::uint64_t>(slice_->whole) * inner;
  begin_ = static_cast<std::uint64_t>(slice_->begin) * inner;
  shape_[dim] = slice_->whole * slice_->pieces;
}

std::uint64_t WholeTensor::elements() const {
  return static_cast<std::uint64_t>(
      std::accumulate(shape_.begin(), shape_.end(), std::int64_t{1}, std::multiplies<>()));
}

std::vector<WholeTensor::Run> WholeTensor::runs(std::uint64_t first, std::uint64_t count) const {
  std::vector<Run> result;
  for (std::uint64_t at = first; at < first + count;) {
    const std::uint64_t in_block = at % block_;
    const std::uint64_t length = std::min(first + count - at, block_ - in_block);
    const std::uint64_t whole = at / block_ * whole_block_ + begin_ + in_block;
    if (!result.empty() && result.back().whole + result.back().count == whole) {
      result.back().count += length;
    } else {
      result.push_back({at, whole, length});
    }
    at += length;
  }
  return result;
}

std::uint64_t WholeTensor::local(std::uint64_t whole) const {
  return whole / whole_block_ * block_ + whole % whole_block_ - begin_;
}

}  // namespace trireme
