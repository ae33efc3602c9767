#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

struct BucketOptions {
  std::size_t bytes = 4u << 20;  ///< a bucket is full when it holds so much
  std::size_t element_bytes = sizeof(float);
  /// 0: a bucket ends with the gradient that fills it. Else buckets are of equal size, so gradients may lie across a
  /// cut; where the model is small, the size is rounded down to a multiple of this many bytes.
  std::size_t cut_unit = 0;
};

/// Which gradients travel together, and which of these are there already in this step. Gradients lie one after the
/// other in backward order: the first bucket holds those of the last parameters. Small models still get a few buckets,
/// so that the last layers' gradients travel while the first layers' are computed. Not thread-safe.
class Buckets {
 public:
  Buckets() = default;

  /// `elements` of each parameter, in the order of registration.
  explicit Buckets(std::span<const std::size_t> elements, const BucketOptions& options = {});

  std::size_t count() const { return members_.size(); }

  /// Elements of all gradients; where a bucket begins among them, and how many it holds.
  std::size_t elements() const { return ends_.empty() ? 0 : ends_.back(); }
  std::size_t first(std::size_t bucket) const { return bucket == 0 ? 0 : ends_[bucket - 1]; }
  std::size_t elements(std::size_t bucket) const { return ends_[bucket] - first(bucket); }

  /// Where the gradient of `parameter` begins among the elements of all.
  std::size_t offset(std::size_t parameter) const { return places_[parameter].offset; }

  /// The parameters whose gradients lie in a bucket, in backward order.
  std::span<const std::uint32_t> members(std::size_t bucket) const { return members_[bucket]; }

  /// The bucket in which the gradient of `parameter` begins.
  std::size_t bucket_of(std::size_t parameter) const { return places_[parameter].first_bucket; }

  /// A new step: no gradient is there.
  void begin();

  /// The gradient of `parameter` is there. Once per step and parameter; twice aborts.
  void add(std::size_t parameter);

  /// Whether the gradient of `parameter` was added in this step; whether all of a bucket were.
  bool has(std::size_t parameter) const { return there_[parameter]; }
  bool full(std::size_t bucket) const { return missing_[bucket] == 0; }

 private:
  struct Place {
    std::size_t offset = 0;
    std::size_t first_bucket = 0;
    std::size_t end_bucket = 0;
  };

  void fill(std::span<const std::size_t> elements, std::size_t enough);
  void cut(std::span<const std::size_t> elements, std::size_t size);

  std::vector<Place> places_;                        // by parameter
  std::vector<std::size_t> ends_;                    // by bucket: the element behind its last
  std::vector<std::vector<std::uint32_t>> members_;  // by bucket
  std::vector<bool> there_;                          // by parameter, in this step
  std::vector<std::size_t> missing_;                 // by bucket: gradients not there yet in this step
};

}  // namespace trireme
