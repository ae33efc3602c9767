#include "tests/collective/nccl/stand_in/nccl.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "base/numbers/half.h"
#include "collective/reduction.h"
#include "tests/collective/nccl/stand_in/stream.h"

namespace {

using trireme::DType;
using trireme::Rank;
using trireme::collective::Contribution;
using trireme::collective::ReduceOp;

enum class Kind { kReduce, kGather, kCopy, kSend, kRecv };

/// One call, as its rank made it.
struct CallSignature {
  Kind kind = Kind::kReduce;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;  // nullptr: this rank gets nothing
  std::size_t count = 0;
  std::size_t first = 0;  // of what is reduced, for this rank
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int peer = 0;
  std::uint64_t round = 0;  // which collective of its communicator it is
};

using Calls = std::vector<CallSignature>;

struct Letter {
  const CallSignature* call;
  bool taken = false;
};

/// A collective, to which each rank brings its call.
struct Round {
  std::map<int, const CallSignature*> calls;
  int computed = 0;  // ranks that need the others' input no more
};

/// What the ranks of one communicator share; guarded by its mutex.
struct World {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::uint64_t, Round> rounds;                                       // by number
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Letter>>> letters;  // from, to
  int joined = 0;
  bool broken = false;  // a kernel was aborted: those that wait for it do so until they are, too
};

std::mutex mutex;
std::map<std::uint64_t, std::shared_ptr<World>> worlds;  // guarded by mutex
std::atomic<std::uint64_t> next_world{1};
std::atomic<bool> hanging{false};

DType type_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return DType::kI8;
    case ncclUint8:
      return DType::kU8;
    case ncclInt32:
      return DType::kI32;
    case ncclInt64:
      return DType::kI64;
    case ncclFloat16:
      return DType::kF16;
    case ncclFloat32:
      return DType::kF32;
    case ncclFloat64:
      return DType::kF64;
    case ncclBfloat16:
      return DType::kBF16;
  }
  return DType::kBool;
}

/// Operations beyond NCCL's own are averages: their number says by how much is divided.
struct Way {
  ReduceOp op;
  std::uint64_t divisor;
};
Way way_of(ncclRedOp_t op) {
  switch (op) {
    case ncclSum:
      return {ReduceOp::kSum, 1};
    case ncclProd:
      return {ReduceOp::kProduct, 1};
    case ncclMax:
      return {ReduceOp::kMax, 1};
    case ncclMin:
      return {ReduceOp::kMin, 1};
    default:
      return {ReduceOp::kAverage, static_cast<std::uint64_t>(op) - 1000};
  }
}

}  // namespace

struct StandInCommunicator {
  std::shared_ptr<World> world;
  int rank = 0;
  int size = 1;
  std::uint64_t collectives = 0;
  std::shared_ptr<std::atomic<bool>> aborted = std::make_shared<std::atomic<bool>>(false);

  void launch(Calls calls, cudaStream_t stream) {
    for (CallSignature& call : calls) {
      if (call.kind != Kind::kSend && call.kind != Kind::kRecv) call.round = collectives++;
    }
    stream->enqueue([world_ = world, rank_ = rank, size_ = size, aborted_ = aborted, calls_ = std::move(calls)] {
      kernel(*world_, rank_, size_, *aborted_, calls_);
    });
  }

  /// False if it was aborted.
  template <typename Condition>
  static bool wait(World& world, std::unique_lock<std::mutex>& lock, const std::atomic<bool>& aborted,
                   Condition condition) {
    world.changed.notify_all();
    while (world.broken || !condition()) {
      world.broken = world.broken || aborted;
      if (aborted) return false;
      world.changed.wait_for(lock, std::chrono::milliseconds(1));
    }
    return true;
  }

  /// All calls of a group at the same time: shows what this rank brings, waits for what it needs, works it out, waits
  /// until nobody needs its input any more (the output may be the same memory), and writes.
  static void kernel(World& world, int rank, int size, const std::atomic<bool>& aborted, const Calls& calls) {
    std::unique_lock lock(world.mutex);
    std::vector<std::shared_ptr<Letter>> sent;
    std::vector<Round*> rounds;
    std::map<int, std::size_t> needed;  // letters from each rank
    for (const CallSignature& call : calls) {
      if (call.kind == Kind::kSend) {
        sent.push_back(std::make_shared<Letter>(Letter{&call}));
        world.letters[{rank, call.peer}].push_back(sent.back());
      } else if (call.kind == Kind::kRecv) {
        ++needed[call.peer];
      } else {
        rounds.push_back(&world.rounds[call.round]);
        rounds.back()->calls[rank] = &call;
      }
    }
    const auto all_here = [&] {
      return !hanging &&
             std::ranges::all_of(rounds, [&](Round* round) { return static_cast<int>(round->calls.size()) == size; }) &&
             std::ranges::all_of(needed, [&](auto& from) {
               return world.letters[{from.first, rank}].size() >= from.second;
             });
    };
    if (!wait(world, lock, aborted, all_here)) return;
    std::vector<std::vector<std::byte>> results;
    for (const CallSignature& call : calls) results.push_back(compute(world, call, rank));
    for (Round* round : rounds) ++round->computed;
    const auto all_computed = [&] {
      return std::ranges::all_of(rounds, [&](Round* round) { return round->computed == size; }) &&
             std::ranges::all_of(sent, [](const auto& letter) { return letter->taken; });
    };
    if (!wait(world, lock, aborted, all_computed)) return;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (!results[i].empty()) std::memcpy(calls[i].out, results[i].data(), results[i].size());
    }
  }

  /// The new content of a call's output.
  static std::vector<std::byte> compute(World& world, const CallSignature& call, int rank) {
    if (call.out == nullptr) return {};
    const DType dtype = type_of(call.type);
    const std::size_t size = call.count * trireme::size_of(dtype);
    std::vector<std::byte> result;
    if (call.kind == Kind::kRecv) {
      auto& letters = world.letters[{call.peer, rank}];
      const auto letter = letters.front();
      letters.pop_front();
      if (letter->call->count != call.count) std::abort();  // NCCL would hang, or worse
      result.assign(letter->call->in, letter->call->in + size);
      letter->taken = true;
      return result;
    }
    auto& calls = world.rounds[call.round].calls;
    if (call.kind == Kind::kGather) {
      for (const auto& [peer, theirs] : calls) result.insert(result.end(), theirs->in, theirs->in + size);
    } else if (call.kind == Kind::kCopy) {
      result.assign(calls[call.peer]->in, calls[call.peer]->in + size);
    } else {
      std::vector<Contribution> parts;
      for (const auto& [peer, theirs] : calls) {
        parts.push_back({{static_cast<Rank>(peer), 1}, theirs->in + call.first * trireme::size_of(dtype)});
      }
      const Way way = way_of(call.op);
      result.resize(size);
      trireme::collective::reduce(dtype, way.op, static_cast<Rank>(calls.size()), parts, call.count, result.data(),
                                  way.divisor);
    }
    return result;
  }
};

namespace {

struct Group {
  int depth = 0;
  std::map<ncclComm_t, std::pair<cudaStream_t, Calls>> calls;
};
thread_local Group group;

ncclResult_t submit(ncclComm_t comm, cudaStream_t stream, CallSignature call) {
  if (group.depth == 0) {
    comm->launch({call}, stream);
    return ncclInProgress;
  }
  auto& [to, calls] = group.calls[comm];
  to = stream;
  calls.push_back(call);
  return ncclSuccess;
}

const std::byte* bytes(const void* memory) { return static_cast<const std::byte*>(memory); }
std::byte* bytes(void* memory) { return static_cast<std::byte*>(memory); }

}  // namespace

void stand_in_hang(bool hang) { hanging = hang; }

const char* ncclGetErrorString(ncclResult_t) { return "an error of the stand-in"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id = {};
  const std::uint64_t number = next_world++;
  std::memcpy(id->internal, &number, sizeof(number));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t*) {
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof(number));
  const std::lock_guard lock(mutex);
  auto& world = worlds[number];
  if (!world) world = std::make_shared<World>();
  ++world->joined;
  *comm = new StandInCommunicator{.world = world, .rank = rank, .size = size};
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const std::lock_guard lock(mutex);
  *state = comm->world->joined == comm->size ? ncclSuccess : ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  *comm->aborted = true;
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type, ncclScalarResidence_t,
                                      ncclComm_t) {
  double factor = 0;
  float single = 0;
  std::uint16_t half = 0;
  if (type == ncclFloat64) {
    std::memcpy(&factor, scalar, sizeof(factor));
  } else if (type == ncclFloat32) {
    std::memcpy(&single, scalar, sizeof(single));
    factor = single;
  } else {
    std::memcpy(&half, scalar, sizeof(half));
    factor = type == ncclFloat16 ? trireme::f16_to_f32(half) : trireme::bf16_to_f32(half);
  }
  *op = static_cast<ncclRedOp_t>(1000 + std::lround(1.0 / factor));
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t, ncclComm_t) { return ncclSuccess; }

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (--group.depth > 0) return ncclSuccess;
  for (auto& [comm, work] : group.calls) comm->launch(std::move(work.second), work.first);
  group.calls.clear();
  return ncclInProgress;
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return submit(comm, stream,
                {.kind = Kind::kReduce, .in = bytes(in), .out = bytes(out), .count = count, .type = type, .op = op});
}

ncclResult_t ncclReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  std::byte* result = comm->rank == root ? bytes(out) : nullptr;
  return submit(comm, stream,
                {.kind = Kind::kReduce, .in = bytes(in), .out = result, .count = count, .type = type, .op = op});
}

ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  const std::size_t first = count * static_cast<std::size_t>(comm->rank);
  return submit(comm, stream,
                {.kind = Kind::kReduce,
                 .in = bytes(in),
                 .out = bytes(out),
                 .count = count,
                 .first = first,
                 .type = type,
                 .op = op});
}

ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return submit(comm, stream,
                {.kind = Kind::kGather, .in = bytes(in), .out = bytes(out), .count = count, .type = type});
}

ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return submit(comm, stream,
                {.kind = Kind::kCopy, .in = bytes(in), .out = bytes(out), .count = count, .type = type, .peer = root});
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return submit(comm, stream, {.kind = Kind::kSend, .in = bytes(data), .count = count, .type = type, .peer = peer});
}

ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return submit(comm, stream, {.kind = Kind::kRecv, .out = bytes(data), .count = count, .type = type, .peer = peer});
}
