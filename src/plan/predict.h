#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/cost/calibration.h"
#include "plan/cost/collective_time.h"
#include "plan/cost/memory.h"
#include "plan/cost/model_cost.h"
#include "plan/schedule/evaluate.h"

namespace trireme::plan {

/// What is to be trained.
struct Workload {
  ModelCost model;
  std::uint64_t batch = 1;  ///< samples per step, of all workers
  Precision precision = Precision::kFp32;
  std::uint32_t optimizer_values = 2;  ///< see StateOptions
  bool any_order = false;              ///< micro-batches may be summed in any order, which needs fewer buffers
};

/// What it is to be trained on.
struct Hardware {
  std::uint32_t workers = 1;
  std::uint32_t hosts = 1;
  double memory = 0;  ///< bytes of each worker that training may fill
  double flops = 1;   ///< per second and worker, as reached, not as advertised
  Links links;
  std::uint32_t cores = 0;  ///< of each host, which its workers share; 0 = each worker has what it needs
  std::shared_ptr<const Calibration> measured = {};  ///< times of layers that were measured; null: flops / rate
};

/// A way to divide the work.
struct Arrangement {
  Mesh mesh;
  std::uint32_t zero = 0;
  ScheduleKind schedule = ScheduleKind::k1F1B;
  std::uint32_t chunks = 1;
  std::uint32_t micro_batches = 1;  ///< per step and data rank
  bool recompute = false;           ///< blocks are computed again in the backward instead of kept
  bool offload = false;             ///< parameter servers, not workers, hold the optimizer's state, and update
  std::uint32_t shards = 0;         ///< ranks among which ZeRO divides, of those of the dimension data; 0 = all

  ScheduleShape schedule_shape() const { return {schedule, mesh.pipe, micro_batches, chunks}; }
  bool operator==(const Arrangement&) const = default;
};

/// "data=8,pipe=4,tensor=2, ZeRO 1, zb-v, 16 micro-batches, recompute"; what does not matter is left out.
std::string to_text(const Arrangement& arrangement);

/// What the fullest rank holds at the moment when that is the most, in bytes.
struct RankMemory {
  StateBytes state;  ///< with the gradients of micro-batches that wait to be summed
  double activations = 0;
  double working = 0;  ///< what comes and goes: in a backward, in a layer that is computed again, between ranks

  double total() const { return state.total() + activations + working; }
};

struct Prediction {
  RankMemory memory;
  double step_seconds = 0;
  double bubble = 0;            ///< share of the pipeline's time; see Evaluation
  double efficiency = 0;        ///< share of the workers' flops that the model itself needs
  double pipeline_seconds = 0;  ///< forward and backward of all micro-batches
  double tensor_seconds = 0;    ///< in it, on the busiest rank: sums of the dimension tensor, which nothing overlaps
  double data_seconds = 0;      ///< sums of gradients and gathers of weights, on the busiest rank
  double exposed_seconds = 0;   ///< of these: what remains when backward has ended
  std::string placement;        ///< where the ranks are, and why
  std::vector<std::size_t> stages;      ///< the first layer of each
  std::vector<StageTimes> stage_times;  ///< seconds and bytes per micro-batch
  double message_seconds = 0;           ///< between two stages
  double update_seconds = 0;            ///< of the optimizer; known only where it was measured
  double crowded_seconds = 0;           ///< what a step takes at least because workers share cores; 0 = they do not
  std::vector<RankMemory> rank_memory;  ///< by rank of the pipeline; `memory` is the fullest
};

/// Returns why the model cannot be divided into so many stages and slices, whatever the batch, and the nearest that
/// can; nullopt if it can. `chunks` are the stages of each rank, `tensor_lanes` the blocks that matrices are cut into.
std::optional<std::string> why_indivisible(const ModelCost& model, const Mesh& mesh, std::uint32_t chunks,
                                           std::uint32_t tensor_lanes);

/// Returns why the model cannot be trained like this, and the nearest that can; nullopt if it can.
std::optional<std::string> why_impossible(const Workload& workload, const Hardware& hardware,
                                          const Arrangement& arrangement);

/// Predicts memory and time of a step. Computing takes flops / rate, each gradient as long as the forward; where the
/// layers were measured (Hardware::measured) it takes what that says, copies and sums of gradients and the optimizer
/// are counted too, and workers that share cores wait for each other. Overlapped are: messages between stages with
/// other micro-batches, ZeRO 3's gathers with the same stage's computing, the sum of gradients with the last
/// micro-batch's backward. Not overlapped: sums of the dimension tensor, ZeRO 1's gather of new weights. Not counted:
/// reading data, the optimizer's arithmetic, kernels that are too small to reach `flops`. Throws InvalidArgument with
/// the reason if it is impossible. `placed` is the mesh on the hardware's hosts.
Prediction predict(const Workload& workload, const Hardware& hardware, const Arrangement& arrangement,
                   const PlacedMesh& placed);
Prediction predict(const Workload& workload, const Hardware& hardware, const Arrangement& arrangement);

}  // namespace trireme::plan
