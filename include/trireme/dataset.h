#pragma once

// Samples: a numbered set of them, and a batch of some. Where they come from: sources.h; what can be done with them:
// transforms.h; which of them a worker reads in which step: sampler.h.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "trireme/schema.h"

namespace trireme::data {

/// The type of element that T holds; 16-bit floats have no type of their own here and are read as bytes.
template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, double>) return DType::kF64;
  if constexpr (std::is_same_v<T, std::int8_t>) return DType::kI8;
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::kU8;
  if constexpr (std::is_same_v<T, std::int16_t>) return DType::kI16;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::kI32;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::kI64;
  if constexpr (std::is_same_v<T, bool>) return DType::kBool;
}

/// Some samples: for each field one buffer with sample after sample, row-major.
///
/// Reading into the same batch again reuses its buffers. Movable, not copyable. Not thread-safe.
class Batch {
 public:
  /// Returns memory of at least this many bytes, aligned to 64; a trainer gives pinned memory here.
  using Allocate = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;

  Batch() = default;
  explicit Batch(Allocate allocate) : allocate_(std::move(allocate)) {}
  Batch(Batch&&) = default;
  Batch& operator=(Batch&&) = default;

  std::size_t size() const { return samples_; }  ///< samples
  const Schema& schema() const { return schema_; }

  /// The extents of a field's buffer: samples, then those of a sample; one that varies is as long as the longest.
  std::span<const std::int64_t> shape(std::size_t field) const { return columns_[field].shape; }

  /// The length of each sample of a field that varies; empty if it does not.
  std::span<std::int64_t> lengths(std::size_t field) { return columns_[field].lengths; }
  std::span<const std::int64_t> lengths(std::size_t field) const { return columns_[field].lengths; }

  /// By field, the room for one sample of those that vary: what make_room takes. 0 for the others.
  std::vector<std::int64_t> longest() const;

  std::span<std::byte> bytes(std::size_t field) { return {columns_[field].memory.get(), columns_[field].size}; }
  std::span<const std::byte> bytes(std::size_t field) const {
    return {columns_[field].memory.get(), columns_[field].size};
  }

  /// The numbers of a field. Throws InvalidArgument if they are of another type.
  template <typename T>
  std::span<T> values(std::size_t field) {
    check_type(field, dtype_of<std::remove_const_t<T>>());
    return {reinterpret_cast<T*>(columns_[field].memory.get()), columns_[field].size / sizeof(T)};
  }
  template <typename T>
  std::span<const T> values(std::size_t field) const {
    return const_cast<Batch*>(this)->values<T>(field);
  }
  template <typename T>
  std::span<const T> values(std::string_view field) const {
    return values<T>(schema_.index_of(field));
  }

  /// Makes it a batch of `samples` of `schema`. Of each field that varies, `longest` (one per field) says how long the
  /// longest sample is; its lengths are 0 until they are set. What the buffers hold is undefined.
  void make_room(const Schema& schema, std::size_t samples, std::span<const std::int64_t> longest = {});

  /// Sets what is behind the end of each sample of a field that varies.
  void pad(std::size_t field);

  /// The same buffers as samples of another schema with fields of as many bytes in all: windows of a stream.
  void reshape(const Schema& schema, std::size_t samples);

  /// Another batch, for a transform that reads its source before it fills this one; its buffers are reused as well.
  Batch& scratch();

 private:
  struct Column {
    std::shared_ptr<std::byte> memory = {};
    std::size_t capacity = 0;
    std::size_t size = 0;
    std::vector<std::int64_t> shape = {};
    std::vector<std::int64_t> lengths = {};
  };

  void check_type(std::size_t field, DType asked) const;

  Schema schema_;
  std::size_t samples_ = 0;
  std::vector<Column> columns_;
  Allocate allocate_;
  std::unique_ptr<Batch> scratch_;
};

/// A fixed, numbered set of samples. Transforms (transforms.h) wrap one and are one.
///
/// Immutable after construction, so every member may be called from any number of threads.
class Dataset {
 public:
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset() = default;

  /// How many samples there are; their indices are 0..size()-1.
  virtual std::uint64_t size() const = 0;

  /// What each of them consists of.
  const Schema& schema() const { return schema_; }

  /// Replaces the content of `out` by the samples at `indices`, in that order; an index may occur more than once.
  /// The same index in the same epoch gives the same sample each time; only random transforms look at the epoch.
  /// Throws InvalidArgument if an index is not below size(), and then leaves `out` as it was; Corrupt or IoError if a
  /// file turns out to be damaged or gone.
  void read(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t epoch = 0) const;

  /// One line for logs and messages: where the samples come from, how many, of what.
  virtual std::string describe() const = 0;

 protected:
  explicit Dataset(Schema schema) : schema_(std::move(schema)) {}

  /// As read(), of indices that exist. Calls out.make_room, or reads another dataset into `out`.
  virtual void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t epoch) const = 0;

  /// `60000 samples of image 1x28x28, label of 10 classes`: the second half of most descriptions.
  std::string summary() const;

 private:
  const Schema schema_;
};

using DatasetPtr = std::shared_ptr<const Dataset>;

/// A training set and a test set.
struct Split {
  DatasetPtr train = {};
  DatasetPtr test = {};
};

}  // namespace trireme::data
