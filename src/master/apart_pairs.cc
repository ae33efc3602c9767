#include "master/apart_pairs.h"

#include <algorithm>

namespace trireme::master {
namespace {

constexpr std::chrono::minutes kFirst{5};
constexpr std::chrono::minutes kLongest{80};

}  // namespace

void ApartPairs::add(cluster::MemberId one, cluster::MemberId other, Time now) {
  Entry& entry = entries_[std::minmax(one, other)];
  if (now < entry.until) return;  // the other one has noticed it, too
  entry.last = std::clamp(2 * entry.last, kFirst, kLongest);
  entry.until = now + entry.last;
}

std::vector<ApartPair> ApartPairs::at(Time now) const {
  std::vector<ApartPair> pairs;
  for (const auto& [pair, entry] : entries_) {
    if (now < entry.until) pairs.push_back(pair);
  }
  return pairs;
}

}  // namespace trireme::master
