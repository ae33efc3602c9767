#pragma once

#include <string>
#include <vector>

#include "plan/placement.h"

namespace trireme {

/// The mesh that the workers of a view form, and where each is in it.
struct FittedMesh {
  plan::Mesh mesh;
  std::string reason;  ///< why it is not the one that was asked for; empty: it is

  /// Ranks beyond are spare: they wait until workers are lost, or more come.
  std::uint32_t used() const { return static_cast<std::uint32_t>(mesh.ranks()); }
  plan::Placement placement() const;
};

/// Fits a mesh to `workers`: the dimensions pipe and tensor as they are wanted, and as many parts of the dimension data
/// as there are workers and lanes for. Where the workers are too few for that, fewer stages, then fewer parts of the
/// matrices (a divisor): the result does not depend on it. Pure, so all workers agree.
FittedMesh fit_mesh(const plan::Mesh& wanted, std::uint32_t workers, Lane lanes);

}  // namespace trireme
