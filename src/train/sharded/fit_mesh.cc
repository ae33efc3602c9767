#include "train/sharded/fit_mesh.h"

#include <algorithm>

#include <fmt/format.h>

namespace trireme {

plan::Placement FittedMesh::placement() const {
  // What talks most is closest: the parts of matrices, then the stages, then the copies of the model.
  return {mesh, {plan::Dimension::kTensor, plan::Dimension::kPipe, plan::Dimension::kData}, /*hosts=*/1};
}

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
