#include "collective/nccl/nccl_backend.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/numbers/half.h"
#include "collective/engine_support.h"
#include "collective/nccl/heartbeat.h"
#include "collective/nccl/nccl_messages.h"
#include "collective/nccl/nccl_stream.h"
#include "collective/rank_group.h"
#include "collective/reduction.h"

namespace trireme::collective {
namespace {

constexpr auto kGrace = 300ms;                      // for a kernel to end by itself when a rank is gone
constexpr std::size_t kHostBlockBytes = 16u << 20;  // of each rank, gathered and reduced on the host at a time

std::optional<ncclDataType_t> type_in_nccl(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ncclFloat32;
    case DType::kF64:
      return ncclFloat64;
    case DType::kF16:
      return ncclFloat16;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kI8:
      return ncclInt8;
    case DType::kU8:
      return ncclUint8;
    case DType::kI32:
      return ncclInt32;
    case DType::kI64:
      return ncclInt64;
    default:
      return {};
  }
}

bool is_floating(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kF16 || dtype == DType::kBF16;
}

/// Returns whether NCCL's arithmetic is ours, apart from order and rounding.
bool nccl_can(DType dtype, ReduceOp op) {
  return type_in_nccl(dtype) && (op != ReduceOp::kAverage || is_floating(dtype));
}

/// A reduction of NCCL; that of an average is created here and destroyed with this object.
class Reducer {
 public:
  Reducer(DType dtype, ReduceOp op, std::uint64_t divisor, ncclComm_t communicator) : communicator_(communicator) {
    switch (op) {
      case ReduceOp::kSum:
        op_ = ncclSum;
        return;
      case ReduceOp::kMin:
        op_ = ncclMin;
        return;
      case ReduceOp::kMax:
        op_ = ncclMax;
        return;
      case ReduceOp::kProduct:
        op_ = ncclProd;
        return;
      case ReduceOp::kAverage:
        break;
    }
    const double factor = 1.0 / static_cast<double>(divisor);
    const auto single = static_cast<float>(factor);
    const std::uint16_t half = dtype == DType::kF16 ? f32_to_f16(single) : f32_to_bf16(single);
    const void* scalar = size_of(dtype) == 8 ? static_cast<const void*>(&factor) : &single;
    if (size_of(dtype) == 2) scalar = &half;
    check(ncclRedOpCreatePreMulSum(&op_, const_cast<void*>(scalar), *type_in_nccl(dtype), ncclScalarHostImmediate,
                                   communicator_),
          "ncclRedOpCreatePreMulSum");
    made_ = true;
  }
  ~Reducer() {
    if (made_) ncclRedOpDestroy(op_, communicator_);
  }
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  ncclRedOp_t op() const { return op_; }

 private:
  ncclComm_t communicator_;
  ncclRedOp_t op_ = ncclSum;
  bool made_ = false;
};

class NcclBackend final : public Backend {
 public:
  NcclBackend(Communicator& bootstrap, int device, Deadline deadline) : device_(device) {
    int devices = 0;
    check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    if (device < 0 || device >= devices) {
      fail<InvalidArgument>("there is no GPU {} among {} here: each rank of a host needs one of its own", device,
                            devices);
    }
    check(cudaSetDevice(device), "cudaSetDevice");
    std::vector<Rank> all(bootstrap.size());
    std::iota(all.begin(), all.end(), 0);
    control_ = bootstrap.subgroup("nccl", all);
    messages_ = std::make_unique<NcclMessages>(rank(), bootstrap.subgroup("nccl/senders", all),
                                               bootstrap.subgroup("nccl/receivers", all));
    ncclUniqueId id{};
    if (rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    control_->run(broadcast(Array(DType::kU8, &id, sizeof(id))), deadline);
    stream_ = std::make_unique<NcclStream>(id, rank(), size());
    stage_ = std::make_unique<Stage>(stream_->stream());
    if (!wait_until([this] { return stream_->ready(); }, deadline)) {
      stream_->abort();
      fail<Timeout>("NCCL did not connect {} ranks within {:.1f} s (rank {}): NCCL_DEBUG=INFO tells what it waits for",
                    size(), static_cast<double>(deadline.allowed().count()) / 1000.0, rank());
    }
    heartbeat_ = std::make_unique<Heartbeat>(bootstrap.subgroup("nccl/heartbeat", all));
  }

  ~NcclBackend() override { cudaSetDevice(device_); }

  Rank rank() const override { return control_->rank(); }
  std::uint32_t size() const override { return control_->size(); }
  std::string transport() const override { return "nccl"; }

  void run(const Operation& operation, Deadline deadline) override {
    operations_.fetch_add(1, std::memory_order_relaxed);
    check(cudaSetDevice(device_), "cudaSetDevice");
    const OpContext context{.operation = operation, .number = ++collectives_, .deadline = deadline};
    try {
      wait_for_all(context);
      move(context);
    } catch (const InvalidArgument&) {
      throw;
    } catch (const std::exception& problem) {
      give_up(problem);
      throw;
    }
  }

  void post(const Operation& operation, Deadline deadline, Done done) override {
    operations_.fetch_add(1, std::memory_order_relaxed);
    check(cudaSetDevice(device_), "cudaSetDevice");
    messages_->post(operation, deadline, std::move(done));
  }

  bool progress() override {
    check(cudaSetDevice(device_), "cudaSetDevice");
    const Deadline soon = Deadline::in(2ms);
    try {
      wait_until(
          [this] {
            advance_messages();
            return messages_->empty();
          },
          soon);
    } catch (const std::exception& problem) {
      give_up(problem);
    }
    return !messages_->empty();
  }

  /// Returns pinned memory, which is copied to the device fastest.
  std::shared_ptr<std::byte> allocate(std::size_t bytes, Deadline /*deadline*/) override {
    check(cudaSetDevice(device_), "cudaSetDevice");
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, std::max<std::size_t>(bytes, 1), cudaHostAllocPortable), "cudaHostAlloc");
    std::memset(memory, 0, bytes);
    return {static_cast<std::byte*>(memory), [](std::byte* pinned) { cudaFreeHost(pinned); }};
  }

  void abort(const std::string& reason) override {
    control_->abort(reason);
    messages_->abort(reason);
    aborted_.store(true, std::memory_order_release);
  }

  Traffic traffic() const override {
    return {.operations = operations_.load(std::memory_order_relaxed),
            .sent_bytes = sent_bytes_.load(std::memory_order_relaxed)};
  }

 private:
  /// Call it in the handler of `problem`: ends everything on this rank. The others notice.
  void give_up(const std::exception& problem) {
    abort(problem.what());
    std::jthread collectives([this] { stream_->abort(); });  // see NcclMessages::end_all
    messages_->end_all(std::current_exception());
  }

  void advance_messages() {
    if (aborted_.load(std::memory_order_acquire)) control_->run(barrier());  // throws, and knows why
    messages_->advance();
    // A rank that is done may leave while we are still busy: a kernel gets the time to end by itself.
    const auto failure = heartbeat_->failure();
    if (failure && Deadline::Clock::now() - failure->since > kGrace) fail<PeerLost>("{}", failure->reason);
  }

  /// Waits until `done`, while messages make progress.
  template <typename Done>
  void wait(const OpContext& context, Done done) {
    const auto ended = [&] {
      if (done()) return true;
      advance_messages();
      return false;
    };
    if (wait_until(ended, context.deadline)) return;
    fail<Timeout>("{} (call {}) did not end within {:.1f} s (rank {}): a rank has stopped in the middle of it",
                  describe(context.operation), context.number,
                  static_cast<double>(context.deadline.allowed().count()) / 1000.0, rank());
  }

  /// Returns every rank's `data`, one after the other, over the native engine.
  template <typename T>
  std::vector<T> show(const OpContext& context, const std::vector<T>& data) {
    std::vector<T> all(data.size() * size());
    const Operation operation = all_gather(ConstArray(DType::kU8, data.data(), data.size() * sizeof(T)),
                                           Array(DType::kU8, all.data(), all.size() * sizeof(T)));
    if (messages_->empty()) {
      control_->run(operation, context.deadline);  // knows which rank is missing
      return all;
    }
    Handle showing = control_->start(operation);
    try {
      wait(context, [&] { return showing.poll(); });
    } catch (const std::exception& problem) {
      control_->abort(problem.what());
      while (!showing.poll()) std::this_thread::yield();  // it uses our memory; aborted, it ends soon
      throw;
    }
    showing.wait();
    return all;
  }

  void wait_for_all(const OpContext& context) {
    const Operation& operation = context.operation;
    agree(rank(), show(context, std::vector<CallSignature>{make_call(operation, context.number)}));
    if (operation.kind == OperationKind::kAllToAll) {
      agree_on_parts(operation, show(context, parts_of(operation)), size());
    }
  }

  void move(const OpContext& context) {
    const Operation& operation = context.operation;
    const bool reduces = operation.kind == OperationKind::kAllReduce || operation.kind == OperationKind::kReduce ||
                         operation.kind == OperationKind::kReduceScatter;
    if (operation.kind == OperationKind::kBarrier) return;
    if (operation.kind == OperationKind::kAllReduce && operation.reduce.algorithm != Algorithm::kAuto) {
      fail<InvalidArgument>("all_reduce by {} is not possible here: NCCL chooses by itself",
                            name_of(operation.reduce.algorithm));
    }
    if (reduces && !nccl_can(operation.in.dtype, operation.reduce.op)) return reduce_on_host(context);
    const bool receives = operation.kind != OperationKind::kReduce || rank() == operation.root;
    const bool in_place = operation.in.data == operation.out.data;
    const std::byte* in = stage_->input(operation.in, operation.kind == OperationKind::kAllToAll && in_place);
    std::byte* out = stage_->output(receives ? operation.out : Array(operation.out.dtype, nullptr, 0));
    sent_bytes_.fetch_add(operation.in.size_bytes(), std::memory_order_relaxed);
    launch_and_wait(context,
                    [&] { reduces ? launch_reduction(operation, in, out) : launch_motion(operation, in, out); });
    stage_->finish_copy_back();
  }

  /// Launches, and waits until the stream is empty.
  template <typename Launch>
  void launch_and_wait(const OpContext& context, Launch launch) {
    check(ncclGroupStart(), "ncclGroupStart");
    launch();
    check(ncclGroupEnd(), "ncclGroupEnd");
    wait(context, [this] { return stream_->ready(); });
    stage_->begin_copy_back();
    wait(context, [this] { return stream_->idle(); });
  }

  void launch_reduction(const Operation& operation, const std::byte* in, std::byte* out) {
    if (operation.in.count == 0) return;
    const ncclDataType_t type = *type_in_nccl(operation.in.dtype);
    const std::size_t element = size_of(operation.in.dtype);
    const Lane lanes = lanes_of(operation, size()).back().end();
    const Reducer reducer(operation.in.dtype, operation.reduce.op, lanes, stream_->communicator());
    const auto to_root = [&](const std::byte* from, std::byte* to, std::size_t count, Rank root) {
      check(ncclReduce(from, to, count, type, reducer.op(), static_cast<int>(root), stream_->communicator(),
                       stream_->stream()),
            "ncclReduce");
    };
    if (operation.kind == OperationKind::kAllReduce) {
      check(ncclAllReduce(in, out, operation.in.count, type, reducer.op(), stream_->communicator(), stream_->stream()),
            "ncclAllReduce");
    } else if (operation.kind == OperationKind::kReduce) {
      to_root(in, out, operation.in.count, operation.root);
    } else if (std::ranges::adjacent_find(operation.in_counts, std::not_equal_to<>()) == operation.in_counts.end()) {
      check(ncclReduceScatter(in, out, operation.in_counts[0], type, reducer.op(), stream_->communicator(),
                              stream_->stream()),
            "ncclReduceScatter");
    } else {
      const auto at = positions(operation.in_counts);
      for (Rank root = 0; root < size(); ++root) {
        if (operation.in_counts[root] > 0) to_root(in + at[root] * element, out, operation.in_counts[root], root);
      }
    }
  }

  /// Moves parts of any size from rank to rank; uses NCCL's own calls if all have the same size.
  void launch_motion(const Operation& operation, const std::byte* in, std::byte* out) {
    const std::size_t element = size_of(operation.in.dtype);
    const bool at_root = rank() == operation.root;
    const auto everybody_sends = [&](const std::vector<std::size_t>& counts, bool takes, auto sends_to, auto part) {
      const auto at = positions(counts);
      for (Rank peer = 0; peer < size(); ++peer) {
        if (takes) receive(peer, out + at[peer] * element, counts[peer] * element, part(rank()));
        if (sends_to(peer)) send(peer, part(peer));
      }
    };
    switch (operation.kind) {
      case OperationKind::kBroadcast:
        if (operation.out.count == 0) return;
        check(ncclBroadcast(in, out, operation.in.size_bytes(), ncclInt8, static_cast<int>(operation.root),
                            stream_->communicator(), stream_->stream()),
              "ncclBroadcast");
        return;
      case OperationKind::kAllGather:
        return everybody_sends(
            operation.out_counts, true, [](Rank) { return true; },
            [&](Rank) { return Bytes(in, operation.in.size_bytes()); });
      case OperationKind::kGather:
        return everybody_sends(
            operation.out_counts, at_root, [&](Rank peer) { return peer == operation.root; },
            [&](Rank) { return Bytes(in, operation.in.size_bytes()); });
      case OperationKind::kScatter: {
        const auto at = positions(operation.in_counts);
        const auto part = [&](Rank peer) {
          return Bytes(in + at[peer] * element, operation.in_counts[peer] * element);
        };
        receive(operation.root, out, operation.out.size_bytes(), at_root ? part(rank()) : Bytes());
        for (Rank peer = 0; at_root && peer < size(); ++peer) send(peer, part(peer));
        return;
      }
      case OperationKind::kAllToAll: {
        const auto at = positions(operation.in_counts);
        return everybody_sends(
            operation.out_counts, true, [](Rank) { return true; },
            [&](Rank peer) { return Bytes(in + at[peer] * element, operation.in_counts[peer] * element); });
      }
      default:
        TRIREME_CHECK(false, "{} is not a motion", name_of(operation.kind));
    }
  }

  void send(Rank peer, Bytes bytes) {
    if (bytes.empty() || peer == rank()) return;
    check(ncclSend(bytes.data(), bytes.size(), ncclInt8, static_cast<int>(peer), stream_->communicator(),
                   stream_->stream()),
          "ncclSend");
  }

  /// Receives from a peer, or copies `own` if the peer is this rank.
  void receive(Rank peer, std::byte* to, std::size_t bytes, Bytes own) {
    if (bytes == 0) return;
    if (peer != rank()) {
      check(ncclRecv(to, bytes, ncclInt8, static_cast<int>(peer), stream_->communicator(), stream_->stream()),
            "ncclRecv");
    } else if (to != own.data()) {
      check(cudaMemcpyAsync(to, own.data(), bytes, cudaMemcpyDefault, stream_->stream()), "cudaMemcpyAsync");
    }
  }

  /// Reduces what NCCL cannot: all ranks get everything, block by block, and reduce what belongs to them.
  void reduce_on_host(const OpContext& context) {
    const Operation& operation = context.operation;
    const std::size_t element = size_of(operation.in.dtype);
    const auto lanes = lanes_of(operation, size());
    std::size_t own_first = 0;
    std::size_t own_end = operation.out.count;
    if (operation.kind == OperationKind::kReduceScatter) {
      own_first = positions(operation.in_counts)[rank()];
      own_end += own_first;
    }
    if (operation.kind == OperationKind::kReduce && rank() != operation.root) own_end = 0;
    const std::size_t block = kHostBlockBytes / element;
    std::vector<std::byte> result((own_end - std::min(own_first, own_end)) * element);
    for (std::size_t first = 0; first < operation.in.count; first += block) {
      const std::size_t count = std::min(block, operation.in.count - first);
      const std::size_t bytes = count * element;
      const std::byte* in = stage_->input({operation.in.dtype, operation.in.data + first * element, count});
      std::byte* all = stage_->device_scratch(bytes * size());
      std::byte* host = stage_->host_scratch(bytes * size());
      stage_->output({});
      launch_and_wait(context, [&] {
        check(ncclAllGather(in, all, bytes, ncclInt8, stream_->communicator(), stream_->stream()), "ncclAllGather");
      });
      check(cudaMemcpyAsync(host, all, bytes * size(), cudaMemcpyDefault, stream_->stream()), "cudaMemcpyAsync");
      wait(context, [this] { return stream_->idle(); });
      const std::size_t from = std::max(first, own_first);
      const std::size_t to = std::min(first + count, own_end);
      if (from >= to) continue;
      std::vector<Contribution> parts;
      for (Rank peer = 0; peer < size(); ++peer) {
        parts.push_back({lanes[peer], host + peer * bytes + (from - first) * element});
      }
      collective::reduce(operation.in.dtype, operation.reduce.op, lanes.back().end(), parts, to - from,
                         result.data() + (from - own_first) * element, lanes.back().end());
    }
    if (result.empty()) return;
    check(cudaMemcpyAsync(operation.out.data, result.data(), result.size(), cudaMemcpyDefault, stream_->stream()),
          "cudaMemcpyAsync");
    wait(context, [this] { return stream_->idle(); });
  }

  int device_;
  std::unique_ptr<Communicator> control_;  // the same ranks over the native engine
  std::unique_ptr<NcclMessages> messages_;
  std::unique_ptr<NcclStream> stream_;
  std::unique_ptr<Stage> stage_;
  std::unique_ptr<Heartbeat> heartbeat_;
  std::uint64_t collectives_ = 0;
  std::atomic<bool> aborted_{false};
  std::atomic<std::uint64_t> operations_{0};
  std::atomic<std::uint64_t> sent_bytes_{0};
};

}  // namespace

std::unique_ptr<Backend> make_nccl_backend(Communicator& bootstrap, int device, Deadline deadline) {
  return std::make_unique<NcclBackend>(bootstrap, device, deadline);
}

}  // namespace trireme::collective
