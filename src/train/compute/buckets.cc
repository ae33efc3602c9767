#include "train/compute/buckets.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace trireme {

Buckets::Buckets(std::span<const std::size_t> elements, std::size_t bucket_bytes) : bucket_of_(elements.size()) {
  const std::size_t total = std::accumulate(elements.begin(), elements.end(), std::size_t{0}) * sizeof(float);
  const std::size_t enough = std::min(bucket_bytes, std::max<std::size_t>(total / 3, 128u << 10));
  std::size_t filled = enough;
  for (std::size_t i = elements.size(); i-- > 0;) {
    if (filled >= enough) {
      members_.emplace_back();
      filled = 0;
    }
    members_.back().push_back(static_cast<std::uint32_t>(i));
    bucket_of_[i] = static_cast<std::uint32_t>(members_.size() - 1);
    filled += elements[i] * sizeof(float);
  }
  begin();
}

void Buckets::begin() {
  missing_.clear();
  for (const auto& bucket : members_) missing_.push_back(bucket.size());
}

std::optional<std::size_t> Buckets::add(std::size_t parameter) {
  const std::size_t bucket = bucket_of_[parameter];
  TRIREME_CHECK(missing_[bucket] > 0, "gradient {} was added twice", parameter);
  return --missing_[bucket] == 0 ? std::optional(bucket) : std::nullopt;
}

}  // namespace trireme
