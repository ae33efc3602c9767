#include "master/lease_table.h"

#include <algorithm>

#include "base/error.h"
#include "cluster/unit_ranges.h"

namespace trireme::master {
namespace {

/// Removes `gone` from `ranges`; returns how many units were removed.
std::uint64_t remove(std::vector<cluster::UnitRange>& ranges, cluster::UnitRange gone) {
  const std::uint64_t before = cluster::count_units(ranges);
  ranges = cluster::without(ranges, {gone});
  return before - cluster::count_units(ranges);
}

}  // namespace

std::uint64_t lease_size(std::uint64_t remaining, std::uint32_t workers) {
  constexpr std::uint64_t kLargest = 16;
  return std::clamp<std::uint64_t>(remaining / (8 * static_cast<std::uint64_t>(std::max(1u, workers))), 1, kLargest);
}

LeaseTable::LeaseTable(const LeasePlan& plan, const LeaseMemory& memory)
    : plan_(plan), end_(memory.end), next_(memory.next), passed_(memory.passed), returned_(memory.open) {
  std::uint64_t open = 0;
  for (const cluster::UnitRange& range : returned_) {
    const bool fits = range.count > 0 && range.first < next_ && range.count <= next_ - range.first;
    if (fits) open += range.count;
    if (!fits || open > next_) fail<Corrupt>("open units {}+{} are not below {}", range.first, range.count, next_);
  }
  if (next_ > end_ || end_ > plan_.total) {
    fail<Corrupt>("{} units were given out, of {}, of {}", next_, end_, plan_.total);
  }
  finished_ = next_ - open;
}

LeaseMemory LeaseTable::memory() const {
  LeaseMemory memory{.end = end_, .next = next_, .passed = passed_, .open = returned_};
  for (const auto& [worker, ranges] : held_) memory.open.insert(memory.open.end(), ranges.begin(), ranges.end());
  return memory;
}

std::uint64_t LeaseTable::pause_at() const {
  const std::uint64_t planned =
      plan_.pause_every == 0 ? ~std::uint64_t{0} : (passed_ / plan_.pause_every + 1) * plan_.pause_every;
  return extra_pause_ > passed_ ? std::min(planned, extra_pause_) : planned;
}

cluster::UnitRange LeaseTable::next(cluster::MemberId worker) {
  cluster::UnitRange range;
  const std::uint64_t limit = std::min(end_, pause_at());
  if (!returned_.empty()) {
    range = returned_.back();
    returned_.pop_back();
  } else if (next_ < limit) {
    range = {next_, std::min(lease_size(limit - next_, plan_.workers), limit - next_)};
    next_ += range.count;
  } else {
    return {};
  }
  held_[worker].push_back(range);
  return range;
}

void LeaseTable::finish(cluster::UnitRange range) {
  if (range.count == 0 || range.first >= end_ || range.count > end_ - range.first) {
    fail<InvalidArgument>("units {}+{} were finished, but there are {}", range.first, range.count, end_);
  }
  const std::uint64_t range_end = range.first + range.count;
  if (range_end > next_) {  // leased by a table that knew more
    returned_.push_back({next_, range_end - next_});
    next_ = range_end;
    // That table had ended the pauses before them, too: no lease reaches beyond one.
    if (plan_.pause_every > 0) passed_ = std::max(passed_, range.first / plan_.pause_every * plan_.pause_every);
  }
  finished_ += remove(returned_, range);
  for (auto& [worker, ranges] : held_) finished_ += remove(ranges, range);
}

void LeaseTable::keep_only(cluster::MemberId worker, const std::vector<cluster::UnitRange>& units) {
  const auto held = held_.find(worker);
  if (held == held_.end()) return;
  const std::vector<cluster::UnitRange> dropped = cluster::without(held->second, units);
  returned_.insert(returned_.end(), dropped.begin(), dropped.end());
  held->second = cluster::without(held->second, dropped);
  if (held->second.empty()) held_.erase(held);
}

void LeaseTable::rewind(std::uint64_t units) {
  if (units > end_) fail<InvalidArgument>("units {} and later are to be done again, but there are {}", units, end_);
  next_ = finished_ = passed_ = units;
  extra_pause_ = 0;
  returned_.clear();
  held_.clear();
}

void LeaseTable::stop_early(std::uint64_t whole) { end_ = std::min(end_, (next_ + whole - 1) / whole * whole); }

void LeaseTable::skip_pause() {
  if (next_ == pause_at() && next_ != extra_pause_) passed_ = next_;
}

void LeaseTable::pause_soon(std::uint64_t whole) {
  const std::uint64_t soonest = (next_ + whole - 1) / whole * whole;
  extra_pause_ = std::max(whole, soonest > passed_ ? soonest : passed_ + whole);
}

void LeaseTable::pass(std::uint64_t units) {
  if (paused() && units == finished_) passed_ = units;
}

}  // namespace trireme::master
