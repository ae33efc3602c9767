#include "ps/tables.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "optim/loss_scale.h"

namespace trireme::ps {
namespace {

// What a request can make us allocate.
constexpr std::uint32_t kMaxParties = 1u << 16;                 // workers, shards, lanes
constexpr double kMaxFloats = static_cast<double>(1ull << 40);  // of all servers together
constexpr double kMaxChunks = static_cast<double>(1u << 24);

const JobTables& checked(const JobTables& job) {
  if (job.shards == 0 || job.shards > kMaxParties || job.lanes == 0 || job.lanes > kMaxParties) {
    fail<InvalidArgument>("a job of {} shards and {} lanes cannot be", job.shards, job.lanes);
  }
  double floats = 0;
  for (const TableSpec& table : job.tables) floats += static_cast<double>(table.elements);
  if (floats > kMaxFloats || floats * sizeof(float) / static_cast<double>(job.max_chunk_bytes) > kMaxChunks) {
    fail<InvalidArgument>("tables of {} floats in chunks of {} bytes are more than a server can hold", floats,
                          job.max_chunk_bytes);
  }
  for (const TableSpec& table : job.tables) {
    if (!(table.lr >= 0 && table.decay >= 0 && std::isfinite(table.lr) && std::isfinite(table.decay))) {
      fail<InvalidArgument>("table '{}' multiplies the rate by {} and decay by {}, which cannot be", table.name,
                            table.lr, table.decay);
    }
  }
  optim::validate(job.update);
  if (!(job.clip_norm >= 0 && std::isfinite(job.clip_norm))) {
    fail<InvalidArgument>("clip_norm is {}, but must be a finite number of at least 0", job.clip_norm);
  }
  for (const TableSpec& table : job.tables) {
    if (table.scale_growth > 0 && (!table.sums || table.elements != optim::LossScale::kFloats)) {
      fail<InvalidArgument>("table '{}' of {} floats cannot be a loss scale", table.name, table.elements);
    }
  }
  if (job.weighs() && (!job.consistency.synchronous() || job.consistency.backup_workers > 0)) {
    fail<InvalidArgument>(
        "servers clip by norm and leave steps out in bsp without backup workers: only there a step has one gradient");
  }
  return job;
}

}  // namespace

Tables::Tables(const JobTables& description, std::shared_ptr<net::BufferPool> pool, bool snapshots, SpanRecorder* spans)
    : description_(checked(description)),
      layout_(description.tables, description.shards, {.max_chunk_bytes = description.max_chunk_bytes}),
      policy_{.update = description.update,
              .consistency = description.consistency,
              .lanes = description.lanes,
              .weighs = description.weighs(),
              .skips = description.skips,
              .pool = std::move(pool),
              .snapshot_every = 0,
              .on_snapshot = {},
              .spans = spans} {
  if (!snapshots) return;
  snapshots_ = std::make_unique<SnapshotCollector>();
  policy_.snapshot_every = description.consistency.synchronous() ? description.checkpoint_every : 0;
  policy_.on_snapshot = [this](const ChunkHeader& header, ChunkState state) {
    snapshots_->add(header, std::move(state));
  };
}

void Tables::check_same(const JobTables& other) const {
  const nlohmann::json ours(description_);
  const nlohmann::json theirs(other);
  for (const auto& [field, value] : ours.items()) {
    if (theirs.at(field) != value) {
      fail<InvalidArgument>(
          "this server already holds the tables of a job with another '{}': {} here, {} asked for; "
          "do all workers run the same program with the same flags?",
          field, value.dump().substr(0, 200), theirs.at(field).dump().substr(0, 200));
    }
  }
}

void Tables::check_view(const cluster::ViewInfo& view) const {
  if (view.shards.size() < description_.shards || view.shards.size() > kMaxParties) {
    fail<InvalidArgument>("view {} has places for {} shards, the tables need {}", view.view, view.shards.size(),
                          description_.shards);
  }
  if (view.workers.empty() || view.workers.size() > kMaxParties) {
    fail<InvalidArgument>("view {} of {} workers cannot be", view.view, view.workers.size());
  }
  validate(description_.consistency, static_cast<std::uint32_t>(view.workers.size()));
  const auto known = [&](MemberId id) {
    return std::ranges::find(view.servers, id, &cluster::MemberInfo::id) != view.servers.end();
  };
  for (const cluster::ShardPlace& place : view.shards) {
    const auto other = [&](MemberId id) { return id == 0 || (known(id) && id != place.primary); };
    const bool same = place.filling != 0 && place.filling == place.replica;
    if (!known(place.primary) || !other(place.replica) || !other(place.filling) || same) {
      fail<InvalidArgument>(
          "view {} places a shard on members {}, {} and {} (0: none), which are not different servers", view.view,
          place.primary, place.replica, place.filling);
    }
  }
}

HeldShards::HeldShards(std::shared_ptr<const Tables> tables, const cluster::ViewInfo& view, MemberId self,
                       const HeldShards* before, net::EventLoop& loop, const ReplicaLinkOptions& link)
    : tables_(std::move(tables)), view_(view), self_(self), by_number_(view.shards.size()) {
  std::map<MemberId, std::vector<ReplicatedShard>> copies;  // by replica
  for (std::uint32_t number = 0; number < tables_->layout().shards(); ++number) {
    const cluster::ShardPlace& place = view.shards[number];
    if (place.primary != self && place.replica != self && place.filling != self) continue;
    std::shared_ptr<Shard>& shard = by_number_[number];
    // As another member it has no claim to what it held: others may have moved on without it.
    const bool kept = before != nullptr && before->self_ == self && before->view_.shards[number].born == place.born;
    if (kept) shard = before->by_number_[number];
    if (!shard) shard = std::make_shared<Shard>(tables_->layout(), number, tables_->policy());
    held_.push_back(shard);
    if (place.primary != self) continue;
    const auto copy = [&](MemberId to, bool in_sync) {
      if (to != 0) copies[to].push_back({.shard = shard, .number = number, .in_sync = in_sync});
    };
    copy(place.replica, place.in_sync);
    copy(place.filling, place.filled);
  }
  std::vector<std::vector<std::shared_ptr<ReplicaLink>>> by_shard(view.shards.size());
  for (auto& [replica, shards] : copies) {
    ReplicaLinkOptions options = link;
    options.replica = *std::ranges::find(view.servers, replica, &cluster::MemberInfo::id);
    options.from = self;
    options.open = {.job = tables_->description(), .view = view, .server = replica};
    std::vector<std::uint32_t> numbers;
    for (const ReplicatedShard& shard : shards) numbers.push_back(shard.number);
    links_.push_back(std::make_shared<ReplicaLink>(loop, std::move(options), std::move(shards)));
    for (const std::uint32_t number : numbers) by_shard[number].push_back(links_.back());
  }
  const auto workers = static_cast<std::uint32_t>(view.workers.size());
  const auto enter = [&](const std::shared_ptr<Shard>& shard, const std::vector<std::shared_ptr<ReplicaLink>>& to) {
    for (std::size_t i = 0; i < shard->size(); ++i) shard->chunk(i).enter(view.view, workers, to);
  };
  for (const auto& shard : held_) enter(shard, by_shard[shard->number()]);
  if (before != nullptr) {
    for (const auto& shard : before->held_) {
      if (by_number_[shard->number()] != shard) enter(shard, {});  // gone from here: whoever waits has to know
    }
  }
  expect_snapshots();  // nothing of the former view can come any more
}

void HeldShards::expect_snapshots() const {
  if (tables_->snapshots() == nullptr) return;
  std::set<std::uint32_t> chunks;
  for (const auto& shard : held_) {
    for (std::size_t i = 0; i < shard->size() && is_primary(*shard); ++i) chunks.insert(shard->chunk(i).index());
  }
  tables_->snapshots()->expect(view_.view, std::move(chunks));
}

const std::shared_ptr<Shard>& HeldShards::shard_of(std::uint32_t chunk) const {
  const auto& chunks = tables_->layout().chunks();
  if (chunk >= chunks.size()) fail<InvalidArgument>("there is no chunk {}, only {}", chunk, chunks.size());
  return by_number_[chunks[chunk].place.shard];
}

Chunk& HeldShards::held(std::uint32_t chunk) const {
  const auto& shard = shard_of(chunk);
  if (!shard) {
    fail<InvalidArgument>("chunk {} has no copy on member {} in view {}: it is of shard {}", chunk, self_, view_.view,
                          tables_->layout().chunks()[chunk].place.shard);
  }
  return shard->chunk(tables_->layout().chunks()[chunk].shard_index);
}

Chunk& HeldShards::primary_of(std::uint32_t chunk) const {
  const auto& shard = shard_of(chunk);
  if (!shard || !is_primary(*shard)) {
    fail<InvalidArgument>("member {} is not the primary of chunk {} in view {}", self_, chunk, view_.view);
  }
  return shard->chunk(tables_->layout().chunks()[chunk].shard_index);
}

Chunk& HeldShards::replica_of(std::uint32_t chunk, MemberId from) const {
  const auto& shard = shard_of(chunk);
  if (!shard || !is_replica(*shard, from)) {
    fail<InvalidArgument>("member {} does not back up chunk {} for member {} in view {}", self_, chunk, from,
                          view_.view);
  }
  return shard->chunk(tables_->layout().chunks()[chunk].shard_index);
}

std::vector<cluster::ShardReport> HeldShards::empty_shards() const {
  std::vector<cluster::ShardReport> reports;
  for (std::uint32_t number = tables_->layout().shards(); number < view_.shards.size(); ++number) {
    const cluster::ShardPlace& place = view_.shards[number];
    for (const MemberId copy : {place.replica, place.filling}) {
      if (place.primary != self_ || copy == 0) continue;
      reports.push_back({.shard = number, .replica = copy, .in_sync = true, .failure = ""});
    }
  }
  return reports;
}

LoadStatus HeldShards::load_status() const {
  LoadStatus load_status;
  for (const auto& shard : held_) {
    for (std::size_t i = 0; i < shard->size() && is_primary(*shard); ++i) {
      const auto [assigned, version] = shard->chunk(i).load_status();
      load_status.add(assigned ? LoadStatus{.chunks = 1, .assigned = 1, .oldest = version, .newest = version}
                               : LoadStatus{.chunks = 1});
    }
  }
  return load_status;
}

void LoadStatus::add(const LoadStatus& other) {
  chunks += other.chunks;
  assigned += other.assigned;
  oldest = std::min(oldest, other.oldest);
  newest = std::max(newest, other.newest);
}

Chunk::Clocks HeldShards::clocks() const {
  Chunk::Clocks clocks;
  for (const auto& shard : held_) {
    for (std::size_t i = 0; i < shard->size() && is_primary(*shard); ++i) {
      Chunk::Clocks one = shard->chunk(i).clocks();
      const Step spread = std::max(clocks.spread_max, one.spread_max);
      if (clocks.finished.empty()) clocks = std::move(one);
      clocks.spread_max = spread;
    }
  }
  return clocks;
}

}  // namespace trireme::ps
