#include "collective/choice.h"
#include "collective/rank_group.h"
#include "collective/reduction.h"

namespace trireme::collective {

void all_reduce_hierarchical(Mesh& mesh, const Operation& operation, const OpContext& context) {
  const std::span<const LaneRange> lanes = mesh.lanes(operation);
  // If any order is allowed, a host's lanes need not be a subtree: then the hosts count as lanes.
  const bool in_order = hosts_are_subtrees({.ranks = mesh.size(), .hosts = mesh.hosts()}, lanes);
  const auto lanes_of_host = [&](const std::vector<Rank>& ranks, Lane number) {
    if (!in_order) return LaneRange{number, 1};
    const Lane first = lanes[ranks.front()].first;
    return LaneRange{first, lanes[ranks.back()].end() - first};
  };
  // Averages are divided once, by the ranks that have the whole sum.
  const bool average = operation.reduce.op == ReduceOp::kAverage;
  const Rank leader = mesh.local_ranks().front();
  if (mesh.local() != nullptr) {
    Operation within = operation;
    within.kind = OperationKind::kReduce;
    within.root = leader;
    if (average) within.reduce.op = ReduceOp::kSum;
    within.reduce.lanes.clear();
    for (const Rank rank : mesh.local_ranks()) within.reduce.lanes.push_back(lanes[rank]);
    shared_memory::reduce(mesh, within, context);
  } else {
    copy_bytes(operation.out.data, operation.in.data, operation.in.size_bytes());
  }
  if (mesh.rank() == leader) {
    RankGroup leaders{.mesh = mesh, .ranks = {}, .lanes = {}, .self = 0, .context = context};
    std::vector<LaneRange> leaders_lanes;
    for (const auto& ranks : mesh.hosts()) {
      if (ranks.front() == leader) leaders.self = leaders.ranks.size();
      leaders.ranks.push_back(ranks.front());
      leaders_lanes.push_back(lanes_of_host(ranks, static_cast<Lane>(leaders_lanes.size())));
    }
    leaders.lanes = leaders_lanes;
    Operation between = operation;
    between.in = operation.out;
    if (average && !in_order) between.reduce.op = ReduceOp::kSum;
    network::all_reduce_direct(leaders, between);
    if (average && !in_order) {
      divide(operation.out.dtype, operation.out.data, operation.out.count, lanes.back().end());
    }
  }
  if (mesh.local() != nullptr) {
    Operation within = operation;
    within.in = operation.out;
    within.root = leader;
    shared_memory::broadcast(mesh, within, context);
  }
}

}  // namespace trireme::collective
