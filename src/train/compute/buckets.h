#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace trireme {

/// Which gradients travel together, and which of these are there already in this step. Buckets are filled in backward
/// order: the first one holds the last parameters.
class Buckets {
 public:
  Buckets() = default;

  /// `elements` of each parameter, in the order of registration. A bucket is full when it holds `bucket_bytes`. Small
  /// models still get a few buckets, so that the last layers' gradients travel while the first layers' are computed.
  Buckets(std::span<const std::size_t> elements, std::size_t bucket_bytes);

  std::size_t count() const { return members_.size(); }

  /// The parameters of a bucket, in backward request.
  std::span<const std::uint32_t> members(std::size_t bucket) const { return members_[bucket]; }

  /// A new step: no gradient is there.
  void begin();

  /// The gradient of `parameter` is there; the bucket that it completes, if it does. Once per step and parameter.
  std::optional<std::size_t> add(std::size_t parameter);

 private:
  std::vector<std::vector<std::uint32_t>> members_;
  std::vector<std::uint32_t> bucket_of_;  // by parameter
  std::vector<std::size_t> missing_;      // by bucket: gradients not there yet in this step
};

}  // namespace trireme
