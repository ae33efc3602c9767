#pragma once

#include <span>
#include <vector>

#include "collective/native/mesh.h"

namespace trireme::collective {

// How the native engine moves data. Each function is one collective on one kind of transport; all ranks of the group
// call it together, after they have compared their calls. All ranks know what goes where, so only data is sent.

/// Some ranks of a mesh, in one operation.
struct RankGroup {
  Mesh& mesh;
  std::vector<Rank> ranks;           ///< ascending
  std::span<const LaneRange> lanes;  ///< of which each one's values are a partial sum
  std::size_t self = 0;              ///< our position in `ranks`
  const OpContext& context;

  std::size_t size() const { return ranks.size(); }
  Lane all_lanes() const { return lanes.empty() ? 0 : lanes.back().end(); }
};

/// Part `i` of `parts` of `count` elements: as equal as possible, divided at multiples of a cache line.
struct Part {
  std::size_t first = 0;
  std::size_t count = 0;
};
Part part_of(std::size_t count, std::size_t element_bytes, std::size_t parts, std::size_t i);

/// Returns where each rank's elements start, given their counts, and the total at the end.
std::vector<std::size_t> positions(const std::vector<std::size_t>& counts);

/// Copies unless source and destination are the same.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes);

// Ranks of one host, through shared memory: staged in blocks that stay in the cache. See LocalGroup about rounds.

namespace shared_memory {

/// Reduces small data, which was shown together with the calls, in `round`.
void all_reduce_one_shot(Mesh& mesh, const Operation& operation, std::uint32_t round);

/// Each rank sums one slice of each block; one round per block.
void all_reduce_direct(Mesh& mesh, const Operation& operation, const OpContext& context);

/// The data is in memory that all ranks share: each rank sums one slice and writes it to all. `calls`, by rank, say
/// where the data is: our copies, since the ranks could change those that they show.
void all_reduce_in_place(Mesh& mesh, const Operation& operation, const OpContext& context,
                         std::span<const CallSignature> calls);

void reduce_scatter(Mesh& mesh, const Operation& operation, const OpContext& context);
void reduce(Mesh& mesh, const Operation& operation, const OpContext& context);
void all_gather(Mesh& mesh, const Operation& operation, const OpContext& context);
void broadcast(Mesh& mesh, const Operation& operation, const OpContext& context);
void gather(Mesh& mesh, const Operation& operation, const OpContext& context);
void scatter(Mesh& mesh, const Operation& operation, const OpContext& context);

/// `most` is the largest part that any rank gives to any other.
void all_to_all(Mesh& mesh, const Operation& operation, const OpContext& context, std::size_t most);

}  // namespace shared_memory

// Any ranks, through pipes.

namespace network {

void all_reduce_direct(const RankGroup& group, const Operation& operation);
void all_reduce_tree(const RankGroup& group, const Operation& operation);
void all_reduce_halving_doubling(const RankGroup& group, const Operation& operation);  ///< powers of two
void all_reduce_ring(const RankGroup& group, const Operation& operation);
void reduce_scatter(const RankGroup& group, const Operation& operation);
void reduce(const RankGroup& group, const Operation& operation);
void all_gather(const RankGroup& group, const Operation& operation);
void broadcast(const RankGroup& group, const Operation& operation);
void gather(const RankGroup& group, const Operation& operation);
void scatter(const RankGroup& group, const Operation& operation);
void all_to_all(const RankGroup& group, const Operation& operation);

}  // namespace network

/// Sums within each host, then between one rank of each host, then gives the sum to all: the network carries it once
/// for each pair of hosts.
void all_reduce_hierarchical(Mesh& mesh, const Operation& operation, const OpContext& context);

}  // namespace trireme::collective
