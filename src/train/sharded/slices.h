#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trireme/layers.h"

namespace trireme {

/// Where the elements of a tensor that is here are in the whole one, of which it may be a slice (tensor parallelism).
class WholeTensor {
 public:
  /// `shape` is that of what is here.
  WholeTensor(std::vector<std::int64_t> shape, std::optional<ParameterSlice> slice);

  const std::vector<std::int64_t>& shape() const { return shape_; }  ///< of the whole
  std::uint64_t elements() const;                                    ///< of the whole
  bool sliced() const { return slice_.has_value(); }

  /// Consecutive elements, here and in the whole.
  struct Run {
    std::uint64_t local = 0;
    std::uint64_t whole = 0;
    std::uint64_t count = 0;
  };

  /// Returns the runs that elements [first, first + count) of what is here are of, in order.
  std::vector<Run> runs(std::uint64_t first, std::uint64_t count) const;

  /// Returns where element `whole` of the whole, which is here, is here.
  std::uint64_t local(std::uint64_t whole) const;

 private:
  std::vector<std::int64_t> shape_;
  std::optional<ParameterSlice> slice_;
  std::uint64_t block_ = 1;        // consecutive elements here that are consecutive in the whole
  std::uint64_t whole_block_ = 1;  // from the begin of one such block to the next, in the whole
  std::uint64_t begin_ = 0;        // of the first one
};

}  // namespace trireme
