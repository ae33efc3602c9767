#include "trireme/cluster/lease_book.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme::cluster {

std::uint64_t lease_size(std::uint64_t remaining, std::uint32_t workers) {
  constexpr std::uint64_t kLargest = 16;
  return std::clamp<std::uint64_t>(remaining / (8 * static_cast<std::uint64_t>(std::max(1u, workers))), 1, kLargest);
}

UnitRange LeaseBook::next(MemberId worker) {
  UnitRange range;
  if (!returned_.empty()) {
    range = returned_.back();
    returned_.pop_back();
  } else if (next_ < total_) {
    range = {next_, std::min(lease_size(total_ - next_, workers_), total_ - next_)};
    next_ += range.count;
  } else {
    return {};
  }
  held_[worker].push_back(range);
  return range;
}

void LeaseBook::finish(MemberId worker, UnitRange range) {
  auto& held = held_[worker];
  const auto lease = std::find_if(held.begin(), held.end(), [&](const UnitRange& candidate) {
    return candidate.first == range.first && range.count > 0 && range.count <= candidate.count;
  });
  if (lease == held.end()) {
    fail<InvalidArgument>("worker {} finished units {}..{}, which it does not hold", worker, range.first,
                          range.first + range.count);
  }
  finished_ += range.count;
  lease->first += range.count;
  lease->count -= range.count;
  if (lease->count == 0) held.erase(lease);
}

void LeaseBook::give_back(MemberId worker) {
  auto& held = held_[worker];
  returned_.insert(returned_.end(), held.begin(), held.end());
  held.clear();
}

}  // namespace trireme::cluster
