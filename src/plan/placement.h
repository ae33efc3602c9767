#pragma once

#include <array>
#include <string>
#include <vector>

#include "plan/mesh.h"

namespace trireme::plan {

/// How a group of ranks lies on hosts.
struct GroupSpan {
  std::uint32_t ranks = 1;
  std::uint32_t hosts = 1;       ///< on which it has ranks
  std::uint32_t most_local = 1;  ///< the most ranks it has on one of them

  bool within_host() const { return hosts == 1; }
};

/// Which rank has which coordinates of a mesh, and which host a rank is on. Ranks are numbered along the innermost
/// dimension first; hosts hold runs of neighbouring ranks whose lengths differ by at most one.
class Placement {
 public:
  using Order = std::array<Dimension, 3>;  ///< innermost first

  /// Throws InvalidArgument unless 1 <= hosts <= ranks.
  Placement(const Mesh& mesh, const Order& order, std::uint32_t hosts);

  const Mesh& mesh() const { return mesh_; }
  const Order& order() const { return order_; }
  std::uint32_t hosts() const { return hosts_; }

  Rank rank_of(Coordinates coordinates) const;
  Coordinates coordinates(Rank rank) const;
  std::uint32_t host_of(Rank rank) const;

  /// Returns the ranks that differ from `member` in this dimension alone, itself included, in order: those with which
  /// it sums gradients (data), passes activations on (pipe) or shares every layer (tensor).
  std::vector<Rank> group(Dimension dimension, Rank member) const;

  /// Returns all groups of a dimension; each rank is in exactly one.
  std::vector<std::vector<Rank>> groups(Dimension dimension) const;

  /// Returns how the group of this dimension that spans the most hosts lies.
  GroupSpan widest_span(Dimension dimension) const;

 private:
  Mesh mesh_;
  Order order_;
  std::uint32_t hosts_;
};

/// What a rank sends in a step along each dimension, in bytes or any other unit.
struct Traffic {
  double data = 0;
  double pipe = 0;
  double tensor = 0;

  double along(Dimension dimension) const;
};

/// An order of dimensions, and how the groups of each then lie on hosts.
struct PlacementChoice {
  Placement::Order order;
  std::array<GroupSpan, 3> spans;  ///< the widest of each dimension, in the order of kDimensions

  const GroupSpan& span(Dimension dimension) const { return spans[static_cast<std::size_t>(dimension)]; }
};

struct PlacedMesh {
  PlacementChoice choice;
  std::string reason;  ///< for people
};

/// Returns all orders of the dimensions, the usual one (tensor, data, pipe) first. Takes time in proportion to the
/// ranks: who places a mesh for many loads keeps them.
std::vector<PlacementChoice> placement_choices(const Mesh& mesh, std::uint32_t hosts);

/// Places the ranks of `mesh` so that as little traffic as possible leaves a host, and of equals so that the chattiest
/// dimension is innermost. Sums of data and tensor cross hosts as slices, after a sum within the host; of a pipeline's
/// messages, those between hosts do. A pure function, so all ranks agree.
PlacedMesh place_ranks(const Mesh& mesh, const std::vector<PlacementChoice>& choices, const Traffic& traffic);
PlacedMesh place_ranks(const Mesh& mesh, std::uint32_t hosts, const Traffic& traffic);

/// Returns a picture for people: which rank is where, and which host it is on. At most 12 lines.
std::string picture(const Placement& placement);

}  // namespace trireme::plan
