#include "train/sharded/fit_mesh.h"

#include <algorithm>

#include <fmt/format.h>

namespace trireme {

plan::Placement FittedMesh::placement() const { return {mesh, plan::kTrainedOrder, /*hosts=*/1}; }

FittedMesh fit_mesh(const plan::Mesh& wanted, std::uint32_t workers, Lane lanes) {
  FittedMesh fitted{.mesh = wanted, .reason = {}};
  while (fitted.mesh.tensor > workers) {
    do {
      --fitted.mesh.tensor;
    } while (wanted.tensor % fitted.mesh.tensor != 0);
  }
  fitted.mesh.pipe = std::min(wanted.pipe, workers / fitted.mesh.tensor);
  const std::uint32_t each = fitted.mesh.pipe * fitted.mesh.tensor;
  fitted.mesh.data = std::min<std::uint32_t>(workers / each, lanes);
  if (fitted.mesh != wanted || fitted.used() != workers) {
    fitted.reason = fmt::format("{} for {} workers, {} wanted: {} spare", plan::to_text(fitted.mesh), workers,
                                plan::to_text(wanted), workers - fitted.used());
  }
  return fitted;
}

}  // namespace trireme
