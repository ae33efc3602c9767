#include "trireme/ps/snapshot.h"

#include <algorithm>

#include "trireme/base/log.h"
#include "trireme/net/loop.h"

namespace trireme::ps {

SnapshotCollector::SnapshotCollector(const Layout& layout, SnapshotHook hook)
    : layout_(layout), hook_(std::move(hook)), thread_([this](const std::stop_token& stop) {
        net::name_thread("snapshots");
        run(stop);
      }) {}

SnapshotCollector::~SnapshotCollector() {
  thread_.request_stop();
  thread_.join();
}

void SnapshotCollector::expect(std::set<std::uint32_t> chunks) {
  const std::lock_guard lock(mutex_);
  expected_ = std::move(chunks);
}

void SnapshotCollector::add(const ChunkHeader& header, ChunkImage image) {
  const std::lock_guard lock(mutex_);
  Pieces& pieces = gathering_[header.version];
  pieces.insert_or_assign(header.chunk, std::pair(header, std::move(image)));
  const auto there = [&](std::uint32_t chunk) { return pieces.contains(chunk); };
  if (std::ranges::all_of(expected_, there)) finish(header.version);
}

void SnapshotCollector::finish(Step version) {
  Pieces& pieces = gathering_[version];
  std::erase_if(pieces, [&](const auto& piece) { return !expected_.contains(piece.first); });
  ready_.push_back(assemble(pieces));
  gathering_.erase(gathering_.begin(), gathering_.upper_bound(version));
  work_.notify_all();
}

Snapshot SnapshotCollector::assemble(const Pieces& pieces) const {
  Snapshot snapshot;
  for (const auto& [index, piece] : pieces) {
    const auto& [header, image] = piece;
    const ChunkPlace& place = layout_.chunks()[index].place;
    const std::span all(reinterpret_cast<const float*>(image.memory.get()), image.bytes / sizeof(float));
    Snapshot::Piece part{.table = layout_.tables()[place.table].name,
                         .begin = place.begin,
                         .parameters = all.first(place.count),
                         .state = {},
                         .hold = image.memory};
    for (std::size_t at = place.count; at < all.size(); at += place.count) {
      part.state.push_back(all.subspan(at, place.count));
    }
    snapshot.version = header.version;
    snapshot.updates = header.updates;
    snapshot.pieces.push_back(std::move(part));
  }
  return snapshot;
}

void SnapshotCollector::run(const std::stop_token& stop) {
  for (;;) {
    Snapshot snapshot;
    {
      std::unique_lock lock(mutex_);
      if (!work_.wait(lock, stop, [&] { return !ready_.empty(); })) return;
      snapshot = std::move(ready_.front());
      ready_.pop_front();
    }
    const Step version = snapshot.version;
    try {
      hook_(std::move(snapshot));
    } catch (const std::exception& problem) {
      log_error("a snapshot was not taken", {{"version", version}, {"reason", problem.what()}});
    }
  }
}

}  // namespace trireme::ps
