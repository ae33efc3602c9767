#include "ps/snapshot.h"

#include <algorithm>

#include "base/error.h"

namespace trireme::ps {

void SnapshotCollector::expect(View view, std::set<std::uint32_t> chunks) {
  const MutexLock lock(mutex_);
  view_ = view;
  expected_ = std::move(chunks);
  pieces_.clear();
  wanted_.reset();
  changed_.notify_all();
}

void SnapshotCollector::add(const ChunkHeader& header, ChunkState state) {
  const MutexLock lock(mutex_);
  if (!expected_.contains(header.chunk)) return;
  pieces_[header.version].insert_or_assign(header.chunk, Piece{header.updates, std::move(state)});
  if (!complete(header.version)) return;
  std::erase_if(pieces_, [&, wanted = wanted_](const auto& other) {
    return other.first < header.version && other.first != wanted;
  });
  changed_.notify_all();
}

bool SnapshotCollector::complete(Step version) const {
  const auto found = pieces_.find(version);
  return (found == pieces_.end() ? 0 : found->second.size()) == expected_.size();  // nothing else is taken in
}

std::vector<std::uint32_t> SnapshotCollector::want(Step version, View view) {
  const MutexLock lock(mutex_);
  if (view != view_) fail<StaleView>("this server is in view {}, the request in view {}: rejoin the job", view_, view);
  wanted_ = version;
  const auto found = pieces_.find(version);
  std::vector<std::uint32_t> missing;
  for (const std::uint32_t chunk : expected_) {
    if (found == pieces_.end() || !found->second.contains(chunk)) missing.push_back(chunk);
  }
  return missing;
}

Step SnapshotCollector::updates(Step version) const {
  const MutexLock lock(mutex_);
  Step updates = 0;
  if (const auto found = pieces_.find(version); found != pieces_.end()) {
    for (const auto& [chunk, piece] : found->second) updates = std::max(updates, piece.updates);
  }
  return updates;
}

std::optional<Snapshot> SnapshotCollector::take(const Deadline& deadline, const std::stop_token& stop) {
  const MutexLock lock(mutex_);
  const bool settled =
      changed_.wait(mutex_, stop, deadline, [&]() TRIREME_REQUIRES(mutex_) { return !wanted_ || complete(*wanted_); });
  const std::optional<Step> version = std::exchange(wanted_, std::nullopt);
  if (!settled || !version) return std::nullopt;
  Snapshot snapshot{.version = *version, .chunks = {}};
  for (auto& [chunk, piece] : pieces_[*version]) snapshot.chunks.emplace(chunk, std::move(piece.state));
  pieces_.erase(*version);
  return snapshot;
}

void SnapshotCollector::forget() {
  const MutexLock lock(mutex_);
  wanted_.reset();
}

}  // namespace trireme::ps
