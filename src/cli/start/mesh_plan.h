#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "trireme/schema.h"

#include "cli/flags/train_flags.h"
#include "plan/planner.h"

namespace trireme::cli {

// What the planner (plan/) says of a training before it starts.

inline constexpr const char* kAutoMesh = "auto";  ///< of --mesh: the planner chooses

/// Returns what the planner knows of the model that the flags train on such samples; nullopt if that is nothing:
/// TorchScript, a model of a program's own, wide-deep.
std::optional<plan::ModelCost> planned_model(const TrainFlags& flags, const data::Schema& samples);

/// Throws InvalidArgument, with the nearest that is possible, if the model cannot be divided as the flags say; with
/// --memory also if it does not fit, with what does. What the planner does not know passes: workers find out.
void check_division(const TrainFlags& flags, const data::Schema& samples);

/// What --mesh auto means for a training.
struct MeshDecision {
  plan::Arrangement arrangement;
  std::string reason;  ///< in a line
};

/// Chooses mesh, ZeRO, schedule and micro-batches for the flags' workers, their --memory (unless given, what is free
/// here, divided among them) and what was measured of this machine. Matrices are divided (tensor) only where nothing
/// else fits, because results depend on it. What `given` sets is kept. Throws InvalidArgument with the planner's advice
/// if nothing fits.
MeshDecision decide_mesh(const TrainFlags& flags, const plan::ModelCost& model, const plan::PlanRequest& given = {});

/// Throws InvalidArgument if the mesh is left to us where workers are on `other_hosts`, which we know nothing of.
void check_local_plan(const TrainFlags& flags, bool other_hosts);

/// Replaces --mesh auto among the flags of `command` by what `decide_mesh` says, before they are settled; opens the
/// data to know the samples. Returns the line to tell, empty if the mesh was not left to us. Throws InvalidArgument.
std::string settle_mesh(CLI::App& command, TrainFlags& flags);

}  // namespace trireme::cli
