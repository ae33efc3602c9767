#include "master/apart_pairs.h"

#include <algorithm>

namespace trireme::master {
namespace {

constexpr std::chrono::seconds kFirst{2};
constexpr std::chrono::seconds kLongest{600};

}  // namespace

bool ApartPairs::add(const Seat& one, const Seat& other, Time now) {
  Entry& entry = entries_[std::minmax(one, other)];
  if (entry.apart) return false;                   // the other one has noticed it, too
  const bool held = now - entry.until > kLongest;  // the network between them was sound for long
  entry.last = held ? kFirst : std::clamp(2 * entry.last, kFirst, kLongest);
  entry.until = now + entry.last;
  entry.apart = true;
  return true;
}

bool ApartPairs::reached(const Seat& one, const Seat& other, Time now) {
  const auto found = entries_.find(std::minmax(one, other));
  if (found == entries_.end() || !found->second.apart || now < found->second.until) return false;
  found->second.apart = false;
  return true;
}

std::vector<ApartPairs::Pair> ApartPairs::all() const {
  std::vector<Pair> pairs;
  for (const auto& [pair, entry] : entries_) {
    if (entry.apart) pairs.push_back(pair);
  }
  return pairs;
}

std::vector<Seat> ApartPairs::to_try(const Seat& seat, Time now) const {
  std::vector<Seat> others;
  for (const auto& [pair, entry] : entries_) {
    if (!entry.apart || now < entry.until) continue;
    if (pair.first == seat) others.push_back(pair.second);
    if (pair.second == seat) others.push_back(pair.first);
  }
  return others;
}

}  // namespace trireme::master
