#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trireme/types.h"

#include "base/random.h"
#include "base/step.h"
#include "cluster/protocol.h"
#include "codec/spec.h"
#include "optim/update_config.h"
#include "ps/consistency.h"
#include "ps/placement.h"

namespace trireme {

// On the wire the fields stand side by side with those of the message they belong to.

inline void to_json(nlohmann::json& json, const StepInfo& info) {
  json = {{"step", info.step},
          {"unit", info.unit},
          {"first_lane", info.lanes.first},
          {"lane_count", info.lanes.count},
          {"samples", info.samples},
          {"lr", info.lr},
          {"stop", info.stop},
          {"regroup", info.regroup}};
}

inline void from_json(const nlohmann::json& json, StepInfo& info) {
  json.at("step").get_to(info.step);
  json.at("unit").get_to(info.unit);
  json.at("first_lane").get_to(info.lanes.first);
  json.at("lane_count").get_to(info.lanes.count);
  json.at("samples").get_to(info.samples);
  json.at("lr").get_to(info.lr);
  json.at("stop").get_to(info.stop);
  json.at("regroup").get_to(info.regroup);
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepOutcome, oldest, newest, counted, repeated, stop, regroup)

}  // namespace trireme

namespace trireme::ps {

using cluster::MemberId;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TableSpec, name, elements, sums, scale_growth, lr, decay)

/// What a server may be asked: by workers, and (kSync, kInstall, kReplicate) by the primary of a shard that it backs
/// up. Every frame carries its view; but for kOpen, which may bring the server into a later one, and kStats, another
/// view is refused.
enum Request : std::uint16_t {
  kOpen = 1,         ///< OpenRequest -> OpenReply: agree on tables and view; the first one creates the tables
  kAssign = 2,       ///< PushPullRequest -> StepOutcome: initial values, from the chief
  kPushPull = 3,     ///< PushPullRequest -> StepOutcome: push, pull, or both, of many chunks; a push of a job that
                     ///< weighs -> RoundWeight: the update waits until the norm of all is known, and `apply` comes
  kLeave = 4,        ///< LeaveRequest -> Done: nobody waits for this worker until it pushes again
  kStats = 5,        ///< Nothing -> ServerStats
  kFetch = 6,        ///< FetchRequest -> ChunkHeader and ChunkState: all of a chunk; any copy may be asked
  kRestore = 7,      ///< ChunkHeader and ChunkState -> StepOutcome: a chunk as it was saved, whatever it is now
  kSync = 8,         ///< SyncRequest -> SyncReply: what the replica has
  kInstall = 9,      ///< InstallRequest and ChunkState -> Done: all of a chunk, for the replica
  kReplicate = 10,   ///< ReplicateRequest and gradients -> Done: updates that the primary has made, in order
  kLoadStatus = 11,  ///< Nothing -> LoadStatus: what there is of the parameters
  kClear = 12,       ///< Nothing -> Done: all chunks are to be restored; nobody gets them until they are
  kSave = 13,        ///< SaveRequest -> SaveReply: write a part of a checkpoint, from the chief
};

struct Nothing {
  bool none = true;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Nothing, none)
};
using Done = Nothing;

/// The whole description of a job's parameters: the same in every view, from every worker, for every server.
struct JobTables {
  std::vector<TableSpec> tables;
  std::uint32_t shards = 1;  ///< into which the chunks are divided: fixed for the life of the job
  std::uint64_t max_chunk_bytes = 1u << 20;
  optim::UpdateConfig update;
  Consistency consistency;
  codec::Spec codec;  ///< how the gradient of each chunk is written
  Lane lanes = 1;
  Step checkpoint_every = 0;  ///< bsp: servers that save keep a copy of each version that is a multiple; 0 = none
  double clip_norm = 0;       ///< bsp: the mean gradient of a step, over all tables, is at most so long; 0 = any length
  bool skips = false;         ///< bsp: a step whose gradient, over all tables, is not finite changes no parameters
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(JobTables, tables, shards, max_chunk_bytes, update, consistency, codec, lanes,
                                 checkpoint_every, clip_norm, skips)

  bool weighs() const { return clip_norm > 0 || skips; }
};

/// Instead of a factor: the step was weighed, and is left out.
inline constexpr double kLeaveOut = -1;

/// What all gradients of a step, of some chunks, add up to: what the norm of the whole is made of.
struct RoundWeight {
  std::vector<std::int64_t> squares;  ///< of the elements of the sum: ExactSum::words
  double samples = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(RoundWeight, squares, samples)
  bool operator==(const RoundWeight&) const = default;
};

struct OpenRequest {
  JobTables job;
  cluster::ViewInfo view;  ///< workers by rank, servers with addresses, the place of each shard
  MemberId server = 0;     ///< which of the servers the receiver is
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(OpenRequest, job, view, server)
};

/// The server's parameters as shared memory, where the two share any: segments of the shards it is the primary of.
struct OpenReply {
  bool shares_memory = false;
  std::vector<std::uint32_t> shards;
  std::vector<std::uint64_t> segments;  ///< one for each of `shards`
  bool saves = false;                   ///< it knows where to write its parts of checkpoints: kSave may be asked
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(OpenReply, shares_memory, shards, segments, saves)
};

struct PushPullRequest {
  Rank worker = 0;
  StepInfo info;  ///< of a push
  bool push = false;
  bool pull = false;
  double apply = 0;  ///< where the job weighs: the step that was pushed takes effect, its mean times this, or not at
                     ///< all (kLeaveOut); 0 = not yet
  std::vector<std::uint32_t> chunks;  ///< as Layout::chunks() numbers them
  std::vector<double> prune_below;    ///< of a push: UpdateInput::prune_below by chunk; empty = of none
  std::uint64_t segment = 0;          ///< where the gradients lie: shared memory; 0 = in the payload, chunk after chunk
  std::vector<std::uint64_t> offsets;  ///< bytes from the start of the segment, one per chunk
};

inline void to_json(nlohmann::json& json, const PushPullRequest& request) {
  json = request.info;
  json["worker"] = request.worker;
  json["push"] = request.push;
  json["pull"] = request.pull;
  json["apply"] = request.apply;
  json["chunks"] = request.chunks;
  json["prune_below"] = request.prune_below;
  json["segment"] = request.segment;
  json["offsets"] = request.offsets;
}

inline void from_json(const nlohmann::json& json, PushPullRequest& request) {
  json.get_to(request.info);
  json.at("worker").get_to(request.worker);
  json.at("push").get_to(request.push);
  json.at("pull").get_to(request.pull);
  json.at("apply").get_to(request.apply);
  json.at("chunks").get_to(request.chunks);
  json.at("prune_below").get_to(request.prune_below);
  json.at("segment").get_to(request.segment);
  json.at("offsets").get_to(request.offsets);
}

/// What randomk draws its indices from: the same for all workers, another one in each step.
inline std::uint64_t codec_key(Step step, std::uint32_t chunk) { return mix_seed(step, chunk); }

/// The chunks that a server, or all of them, are the primaries of.
struct LoadStatus {
  std::uint64_t chunks = 0;
  std::uint64_t assigned = 0;  ///< how many of them have their values; the two below are about these
  Step oldest = ~Step{0};
  Step newest = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(LoadStatus, chunks, assigned, oldest, newest)

  bool complete() const { return assigned == chunks; }
  void add(const LoadStatus& other);
};

struct LeaveRequest {
  Rank worker = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(LeaveRequest, worker)
};

struct ServerStats {
  std::uint64_t resident_bytes = 0;
  std::uint64_t parameter_bytes = 0;  ///< of all shards held, as primary or as replica
  std::uint64_t state_bytes = 0;
  std::uint64_t chunks = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ServerStats, resident_bytes, parameter_bytes, state_bytes, chunks)
};

/// A whole chunk: this, and a ChunkState as payload: its parameters, then its optimizer state, as floats.
struct ChunkHeader {
  std::uint32_t chunk = 0;
  bool assigned = false;
  bool stop = false;
  Step version = 0;
  Step updates = 0;
  std::uint64_t history = 0;  ///< digest of all that was ever done to it: equal histories mean equal bits
  std::vector<cluster::UnitRange> units;
  RoundWeight weight;  ///< where the job weighs: of the last step
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ChunkHeader, chunk, assigned, stop, version, updates, history, units, weight)
  bool operator==(const ChunkHeader&) const = default;
};

struct FetchRequest {
  std::uint32_t chunk = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(FetchRequest, chunk)
};

/// A part of a checkpoint: all that the receiver is the primary of, at one version. Where it goes, and under which
/// names, the server knows itself.
struct SaveRequest {
  Step version = 0;        ///< see StepOutcome; which step that is follows from it
  std::string attempt;     ///< as checkpoint::PartInfo has it: the same for all writers
  std::uint32_t part = 0;  ///< from 1 on: part 0 is the chief's own
  std::uint32_t parts = 0;
  std::uint64_t bytes_per_second = 0;  ///< at most; 0 = as fast as the disk takes it
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(SaveRequest, version, attempt, part, parts, bytes_per_second)
};

struct SaveReply {
  Step updates = 0;     ///< steps that changed something, up to that version
  std::string problem;  ///< why nothing will be written; empty = it is on its way
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(SaveReply, updates, problem)
};

struct SyncRequest {
  MemberId from = 0;  ///< the primary
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(SyncRequest, from)
};

/// The chunks of all shards that the two share in these roles.
struct SyncReply {
  std::vector<std::uint32_t> chunks;
  std::vector<std::uint64_t> histories;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(SyncReply, chunks, histories)
};

struct InstallRequest {
  MemberId from = 0;
  ChunkHeader header;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(InstallRequest, from, header)
};

/// One update of one chunk, as the primary made it; the summed gradient is in the payload, unless `empty`.
struct ReplicaUpdate {
  std::uint32_t chunk = 0;
  Step version = 0;  ///< after it
  bool empty = false;
  Step updates = 0;  ///< UpdateInput
  double lr = 0;
  double scale = 1;
  bool stop = false;
  std::uint64_t history = 0;  ///< after it
  std::uint64_t unit = 0;     ///< ssp, asp
  double prune_below = 0;     ///< UpdateInput
  RoundWeight weight;         ///< where the job weighs
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ReplicaUpdate, chunk, version, empty, updates, lr, scale, stop, history, unit,
                                 prune_below, weight)
};

struct ReplicateRequest {
  MemberId from = 0;
  std::vector<ReplicaUpdate> updates;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ReplicateRequest, from, updates)
};

}  // namespace trireme::ps
