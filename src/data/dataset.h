#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trireme::data {

/// Samples as the model wants them. Reading into the same batch again reuses its buffers.
struct Batch {
  std::vector<float> features;       ///< row-major, sample after sample: size() x sample_shape
  std::vector<std::int64_t> labels;  ///< one class per sample

  std::size_t size() const { return labels.size(); }
};

/// A fixed, numbered set of labelled samples. Decorators (Normalized, Subset, Columns) wrap one and are one.
///
/// Immutable after construction, so every member may be called from any number of threads.
class Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset() = default;

  /// How many samples there are; their indices are 0..size()-1.
  virtual std::uint64_t size() const = 0;

  /// Extents of one sample, e.g. {1, 28, 28} for channels, rows, columns.
  virtual const std::vector<std::int64_t>& sample_shape() const = 0;

  /// Labels are 0..classes()-1.
  virtual std::int64_t classes() const = 0;

  /// Replaces the content of `out` by the samples at `indices`, in that order; an index may occur more than once.
  /// The same index gives the same sample each time. Throws InvalidArgument if an index is not below size(), and
  /// then leaves `out` as it was.
  virtual void read(std::span<const std::uint64_t> indices, Batch& out) const = 0;

  /// One line for logs and messages: where the samples come from, how many, which shape.
  virtual std::string describe() const = 0;

  /// Numbers per sample: the product of sample_shape().
  std::size_t sample_elements() const;

 protected:
  /// Throws InvalidArgument unless every index is below size().
  void check_indices(std::span<const std::uint64_t> indices) const;

  /// `60000 samples of 1x28x28 in 10 classes`: the second half of most descriptions.
  std::string summary() const;
};

/// What one trains on and what one measures on.
struct Split {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
};

/// `1x28x28`
std::string shape_text(std::span<const std::int64_t> shape);

/// The product of `shape`. Throws InvalidArgument if it is empty, an extent is not positive, or the product is beyond
/// any sample that fits in memory.
std::size_t shape_elements(std::span<const std::int64_t> shape);

}  // namespace trireme::data
