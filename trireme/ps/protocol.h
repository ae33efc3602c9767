#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include "trireme/base/random.h"
#include "trireme/base/units.h"
#include "trireme/codec/spec.h"
#include "trireme/ps/consistency.h"
#include "trireme/ps/placement.h"
#include "trireme/ps/update_config.h"

namespace trireme::ps {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TableSpec, name, elements)

/// What a worker may ask a server.
enum Request : std::uint16_t {
  kOpen = 1,      ///< OpenRequest -> OpenReply: agree on the tables; the first one creates them
  kAssign = 2,    ///< ExchangeRequest -> Done: initial values, from the chief
  kExchange = 3,  ///< ExchangeRequest -> ExchangeReply: push, pull, or both, of many chunks
  kLeave = 4,     ///< LeaveRequest -> Done: this worker will push no more
  kStats = 5,     ///< Nothing -> ServerStats
};

struct Nothing {
  bool none = true;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Nothing, none)
};
using Done = Nothing;

/// The whole description of a job's parameters: every worker sends the same to every server.
struct OpenRequest {
  std::vector<TableSpec> tables;
  std::uint32_t servers = 1;
  Rank server = 0;  ///< which of them the receiver is
  std::uint64_t max_chunk_bytes = 1u << 20;
  UpdateConfig update;
  Consistency consistency;
  codec::Spec codec;  ///< how the gradient of each chunk is written
  std::uint32_t workers = 1;
  Lane lanes = 1;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(OpenRequest, tables, servers, server, max_chunk_bytes, update, consistency, codec,
                                 workers, lanes)
};

struct OpenReply {
  std::uint64_t segment = 0;  ///< the server's parameters as shared memory; 0 = not shared
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(OpenReply, segment)
};

struct ExchangeRequest {
  Rank worker = 0;
  Step step = 0;
  Lane first_lane = 0;
  Lane lane_count = 0;
  double samples = 0;
  double lr = 0;
  bool stop = false;
  bool push = false;
  bool pull = false;
  std::vector<std::uint32_t> chunks;  ///< the server's own numbering
  std::uint64_t segment = 0;          ///< where the gradients lie: shared memory; 0 = in the payload, chunk after chunk
  std::vector<std::uint64_t> offsets;  ///< bytes from the start of the segment, one per chunk
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ExchangeRequest, worker, step, first_lane, lane_count, samples, lr, stop, push, pull,
                                 chunks, segment, offsets)
};

/// What randomk draws its indices from: the same for all workers, another one in each step.
inline std::uint64_t codec_key(Step step, std::uint32_t server_chunk) { return mix_seed(step, server_chunk); }

struct ExchangeReply {
  Step oldest = 0;      ///< version of the chunk with the fewest updates
  Step newest = 0;      ///< and with the most
  bool counted = true;  ///< false: for some chunk the gradient came too late
  bool stop = false;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ExchangeReply, oldest, newest, counted, stop)
};

struct LeaveRequest {
  Rank worker = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(LeaveRequest, worker)
};

struct ServerStats {
  std::uint64_t resident_bytes = 0;
  std::uint64_t parameter_bytes = 0;
  std::uint64_t state_bytes = 0;
  std::uint64_t chunks = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ServerStats, resident_bytes, parameter_bytes, state_bytes, chunks)
};

}  // namespace trireme::ps
