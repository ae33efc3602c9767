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

/// How training numbers ranks (train/sharded/fit_mesh.h): what talks most is closest, as far as that is known without
/// the model. Parts of matrices exchange the most, then neighbouring stages, and copies of the model once a step.
inline constexpr Placement::Order kTrainedOrder = {Dimension::kTensor, Dimension::kPipe, Dimension::kData};

/// How the groups of each dimension lie on hosts.
struct PlacedMesh {
  std::array<GroupSpan, 3> spans;  ///< the widest of each dimension, in the order of kDimensions
  std::string reason;              ///< for people

  const GroupSpan& span(Dimension dimension) const { return spans[static_cast<std::size_t>(dimension)]; }
};

/// Places the ranks of `mesh` as training does, host by host. Takes time in proportion to the ranks: who places a mesh
/// for many loads keeps the result. A pure function, so all ranks agree.
PlacedMesh place_ranks(const Mesh& mesh, std::uint32_t hosts);

/// Returns a picture for people: which rank is where, and which host it is on. At most 12 lines.
std::string picture(const Placement& placement);

}  // namespace trireme::plan
