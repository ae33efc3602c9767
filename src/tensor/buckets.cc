#include "tensor/buckets.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::size_t kSmallest = 128u << 10;  // bytes; below, a message costs more than it hides

}  // namespace

Buckets::Buckets(std::span<const std::size_t> elements, const BucketOptions& options) : places_(elements.size()) {
  const std::size_t total = std::accumulate(elements.begin(), elements.end(), std::size_t{0});
  std::size_t third = total * options.element_bytes / 3;
  if (options.cut_unit > 0) third -= third % options.cut_unit;
  const std::size_t bytes = std::min(options.bytes, std::max(third, kSmallest));
  if (options.cut_unit > 0) {
    cut(elements, std::max<std::size_t>(1, bytes / options.element_bytes));
  } else {
    fill(elements, (bytes + options.element_bytes - 1) / options.element_bytes);
  }
  for (std::size_t i = elements.size(); i-- > 0;) {
    for (std::size_t bucket = places_[i].first_bucket; bucket < places_[i].end_bucket; ++bucket) {
      members_[bucket].push_back(static_cast<std::uint32_t>(i));
    }
  }
  begin();
}

/// Whole gradients, until a bucket has `enough` elements.
void Buckets::fill(std::span<const std::size_t> elements, std::size_t enough) {
  std::size_t at = 0;
  for (std::size_t i = elements.size(); i-- > 0;) {
    if (ends_.empty() || this->elements(ends_.size() - 1) >= enough) ends_.push_back(at);
    places_[i] = {.offset = at, .first_bucket = ends_.size() - 1, .end_bucket = ends_.size()};
    at += elements[i];
    ends_.back() = at;
  }
  members_.resize(ends_.size());
}

/// Runs of `size` elements each; the last may be shorter.
void Buckets::cut(std::span<const std::size_t> elements, std::size_t size) {
  std::size_t at = 0;
  for (std::size_t i = elements.size(); i-- > 0;) {
    const std::size_t end = at + elements[i];
    places_[i] = {.offset = at, .first_bucket = at / size, .end_bucket = (end + size - 1) / size};
    at = end;
  }
  for (std::size_t end = 0; end < at;) ends_.push_back(end = std::min(end + size, at));
  members_.resize(ends_.size());
}

void Buckets::begin() {
  there_.assign(places_.size(), false);
  missing_.clear();
  for (const auto& bucket : members_) missing_.push_back(bucket.size());
}

void Buckets::add(std::size_t parameter) {
  TRIREME_CHECK(!there_[parameter], "gradient {} was added twice", parameter);
  there_[parameter] = true;
  const Place& place = places_[parameter];
  for (std::size_t bucket = place.first_bucket; bucket < place.end_bucket; ++bucket) --missing_[bucket];
}

}  // namespace trireme
