// How the flags divide a model: --mesh, --pipeline, --stages, --recompute, --tensor-lanes.

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "cli/flags/declare_flag.h"
#include "cli/flags/train_flags.h"
#include "cluster/strategy_choice.h"
#include "plan/schedule/own_schedule.h"

namespace trireme::cli {

void settle_pipeline(CLI::App& command, const TrainFlags& flags) {
  const bool file = flags.pipeline.ends_with(".csv") || flags.pipeline.find('/') != std::string::npos;
  if (file) give(command, "--pipeline", plan::own_schedule_from_file(flags.pipeline));
}

cluster::MeshChoice mesh_of(const TrainFlags& flags) {
  cluster::MeshChoice mesh = flags.mesh.empty() ? cluster::MeshChoice{} : cluster::parse_mesh(flags.mesh);
  mesh.stages = flags.stages;
  mesh.recompute = flags.recompute;
  mesh.tensor_lanes = flags.tensor_lanes > 1 ? flags.tensor_lanes : 0;
  if (plan::is_own_schedule(flags.pipeline)) {
    mesh.pipeline = flags.pipeline;
    plan::own_schedule(mesh.pipeline);
    return mesh;
  }
  const std::size_t colon = std::min(flags.pipeline.find(':'), flags.pipeline.size());
  mesh.pipeline = flags.pipeline.substr(0, colon);
  const plan::ScheduleKind kind = plan::parse_schedule_kind(mesh.pipeline);
  if (colon < flags.pipeline.size()) {
    const std::string_view number = std::string_view(flags.pipeline).substr(colon + 1);
    const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), mesh.chunks);
    if (problem != std::errc() || end != number.data() + number.size() || mesh.chunks == 0 ||
        kind != plan::ScheduleKind::kInterleaved) {
      fail<InvalidArgument>(
          "--pipeline {}: only interleaved takes a number of stages per worker, from 1 on: interleaved:3",
          flags.pipeline);
    }
  }
  return mesh;
}

std::uint32_t usual_lanes(const TrainFlags& flags) {
  return cluster::usual_lanes(mesh_of(flags), flags.workers, flags.batch);
}

}  // namespace trireme::cli
