#include "train/sharded/view_groups.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace trireme {
namespace {

/// Lanes of some neighbours, counted from the first of them.
std::vector<LaneRange> counted_from_first(std::span<const LaneRange> lanes) {
  std::vector<LaneRange> result;
  for (const LaneRange& range : lanes) result.push_back({range.first - lanes.front().first, range.count});
  return result;
}

FittedMesh data_alone(std::uint32_t workers) { return {.mesh = {.data = workers}, .reason = {}}; }

}  // namespace

ViewGroups::ViewGroups(collective::Communicator& world, const Options& options)
    : world_(world),
      mesh_(options.divides_model ? fit_mesh(options.mesh, world.size(), options.lanes) : data_alone(world.size())) {
  if (!mesh_.reason.empty()) remarks_.push_back(mesh_.reason);
  const std::uint32_t data = mesh_.mesh.data;
  const ShardGroups dealt = make_shard_groups(options.lanes, data, options.shards);
  if (!dealt.reason.empty()) remarks_.push_back(dealt.reason);
  shards_ = dealt.shards;
  const bool as_dealt = !options.divides_model && dealt.groups() == 1 && !options.dealt.empty();
  data_lanes_ = as_dealt ? options.dealt : dealt.lanes;
  for (std::uint32_t group = 0; group < dealt.groups(); ++group) {
    const LaneRange& begin = data_lanes_[group * shards_];
    const LaneRange& last = data_lanes_[(group + 1) * shards_ - 1];
    across_lanes_.push_back({begin.first, last.end() - begin.first});
  }
  const plan::Placement placement = mesh_.placement();
  for (Rank rank = 0; rank < world.size(); ++rank) {
    // A spare worker computes nothing; it is told of a lane all the same, so that its steps are like the others'.
    lanes_.push_back(rank < mesh_.used() ? data_lanes_[placement.coordinates(rank).data] : LaneRange{0, 1});
  }
  if (world.rank() >= mesh_.used()) return;
  at_ = placement.coordinates(world.rank());
  within_lanes_ = counted_from_first(std::span(data_lanes_).subspan(group() * shards_, shards_));

  const std::vector<Rank> same_part = placement.group(plan::Dimension::kData, world.rank());
  const auto subgroup = [&](const char* name, const std::vector<Rank>& ranks) {
    return world.subgroup(fmt::format("{} {}", name, ranks.front()), ranks);
  };
  if (same_part.size() == world.size()) {
    data_ = &world_;
  } else if (options.divides_model) {
    own_data_ = subgroup("data", same_part);
    data_ = own_data_.get();
  }
  std::vector<Rank> within(same_part.begin() + group() * shards_, same_part.begin() + (group() + 1) * shards_);
  std::vector<Rank> across;
  for (std::size_t i = shard(); i < same_part.size(); i += shards_) across.push_back(same_part[i]);
  if (within.size() == data) {
    within_ = within.size() > 1 ? data_ : nullptr;
  } else if (within.size() > 1) {
    own_within_ = subgroup("within", within);
    within_ = own_within_.get();
  }
  if (across.size() == data) {
    across_ = across.size() > 1 ? data_ : nullptr;
  } else if (across.size() > 1) {
    own_across_ = subgroup("across", across);
    across_ = own_across_.get();
  }
  if (options.gathers && within.size() > 1) gathers_ = subgroup("gathers", within);
}

void ViewGroups::abort(const std::string& reason) const {
  world_.abort(reason);
  for (collective::Communicator* group : {own_data_.get(), own_within_.get(), own_across_.get(), gathers_.get()}) {
    if (group != nullptr) group->abort(reason);
  }
}

std::uint64_t ViewGroups::wire_bytes() const {
  std::uint64_t bytes = 0;
  for (const collective::Communicator* group : std::initializer_list<const collective::Communicator*>{
           &world_, own_data_.get(), own_within_.get(), own_across_.get(), gathers_.get()}) {
    if (group == nullptr) continue;
    const collective::Traffic traffic = group->traffic();
    bytes += traffic.sent_bytes + traffic.shared_bytes;
  }
  return bytes;
}

}  // namespace trireme
