#include "ps/unit_set.h"

#include <algorithm>

#include "base/error.h"

namespace trireme::ps {
namespace {

std::uint64_t end_of(const cluster::UnitRange& run) { return run.first + run.count; }

}  // namespace

UnitSet::UnitSet(std::vector<cluster::UnitRange> runs) : runs_(std::move(runs)) {
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const bool overflows = runs_[i].count > ~std::uint64_t{0} - runs_[i].first;
    if (runs_[i].count == 0 || overflows || (i > 0 && runs_[i].first <= end_of(runs_[i - 1]))) {
      fail<Corrupt>("units {} + {} are not a run of their own", runs_[i].first, runs_[i].count);
    }
  }
}

bool UnitSet::insert(std::uint64_t unit) {
  // The first run that ends at `unit` or later: the only one that may hold it, or be continued by it.
  const auto at = std::ranges::lower_bound(runs_, unit, {}, end_of);
  const bool holds = at != runs_.end() && at->first <= unit && unit < end_of(*at);
  if (holds) return false;
  if (at != runs_.end() && end_of(*at) == unit) {
    ++at->count;
    const auto next = at + 1;
    if (next != runs_.end() && next->first == unit + 1) {
      at->count += next->count;
      runs_.erase(next);
    }
  } else if (at != runs_.end() && at->first == unit + 1) {
    --at->first;
    ++at->count;
  } else {
    runs_.insert(at, {.first = unit, .count = 1});
  }
  return true;
}

bool UnitSet::contains(std::uint64_t unit) const {
  const auto after = std::ranges::upper_bound(runs_, unit, {}, end_of);
  return after != runs_.end() && after->first <= unit;
}

}  // namespace trireme::ps
