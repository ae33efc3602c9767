#include "cluster/unit_ranges.h"

#include <algorithm>

namespace trireme::cluster {
namespace {

std::vector<UnitRange> without_one(const std::vector<UnitRange>& ranges, UnitRange gone) {
  std::vector<UnitRange> rest;
  for (const UnitRange& range : ranges) {
    const std::uint64_t begin = std::clamp(gone.first, range.first, range.first + range.count);
    const std::uint64_t end = std::clamp(gone.first + gone.count, begin, range.first + range.count);
    if (begin > range.first) rest.push_back({range.first, begin - range.first});
    if (end < range.first + range.count) rest.push_back({end, range.first + range.count - end});
  }
  return rest;
}

}  // namespace

std::uint64_t count_units(const std::vector<UnitRange>& ranges) {
  std::uint64_t units = 0;
  for (const UnitRange& range : ranges) units += range.count;
  return units;
}

std::vector<UnitRange> without(const std::vector<UnitRange>& ranges, const std::vector<UnitRange>& gone) {
  std::vector<UnitRange> rest = ranges;
  for (const UnitRange& range : gone) rest = without_one(rest, range);
  return rest;
}

}  // namespace trireme::cluster
