#include "dist/negotiation.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "collective/compressed_reduce.h"
#include "collective/reduction.h"

namespace trireme::dist {
namespace {

using Kind = OpRequest::Kind;

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::kJoined:
      return "join";
    case Kind::kBarrier:
      return "barrier";
    case Kind::kAllReduce:
      return "all_reduce";
    case Kind::kAllGather:
      return "all_gather";
    case Kind::kBroadcast:
      return "broadcast";
    case Kind::kAllToAll:
      return "all_to_all";
    case Kind::kDeviceSum:
      return "all_reduce on the GPU";
  }
  return "?";
}

std::string_view label_of(const OpRequest& request) {
  const auto end = std::ranges::find(request.label, '\0');
  return {request.label.data(), static_cast<std::size_t>(end - request.label.begin())};
}

bool agree(const OpRequest& a, const OpRequest& b) {
  const bool same_call = a.kind == b.kind && a.dtype == b.dtype && a.root == b.root && a.label == b.label;
  if (!same_call || a.kind == Kind::kBarrier) return same_call;
  if (a.kind == Kind::kAllReduce || a.kind == Kind::kDeviceSum) {
    return a.op == b.op && a.codec == b.codec && a.ratio == b.ratio && a.count == b.count && a.piece == b.piece;
  }
  return a.row_bytes == b.row_bytes && (a.kind != Kind::kBroadcast || a.count == b.count);
}

/// What changes nothing: x op identity = x.
template <typename T>
double identity_of(collective::ReduceOp op) {
  using Limits = std::numeric_limits<T>;
  switch (op) {
    case collective::ReduceOp::kMin:
      return Limits::has_infinity ? Limits::infinity() : static_cast<double>(Limits::max());
    case collective::ReduceOp::kMax:
      return Limits::has_infinity ? -Limits::infinity() : static_cast<double>(Limits::lowest());
    case collective::ReduceOp::kProduct:
      return 1;
    default:
      return 0;
  }
}

template <typename T>
void fill_identity(collective::ReduceOp op, std::vector<std::byte>& memory) {
  T value = static_cast<T>(identity_of<T>(op));
  if (std::is_same_v<T, std::int64_t> && op == collective::ReduceOp::kMin) {
    value = std::numeric_limits<T>::max();  // which no double is
  }
  for (std::size_t at = 0; at < memory.size(); at += sizeof(T)) std::memcpy(memory.data() + at, &value, sizeof(T));
}

/// The identity of a 16-bit float: the upper half of the float's bits, or IEEE half's.
void fill_identity16(collective::ReduceOp op, std::uint16_t one, std::uint16_t infinity,
                     std::vector<std::byte>& memory) {
  std::uint16_t value = 0;
  if (op == collective::ReduceOp::kProduct) value = one;
  if (op == collective::ReduceOp::kMin) value = infinity;
  if (op == collective::ReduceOp::kMax) value = infinity | 0x8000;
  for (std::size_t at = 0; at < memory.size(); at += sizeof(value)) {
    std::memcpy(memory.data() + at, &value, sizeof(value));
  }
}

std::vector<std::byte> identities(DType dtype, collective::ReduceOp op, std::size_t count) {
  std::vector<std::byte> memory(count * size_of(dtype));
  switch (dtype) {
    case DType::kF32:
      fill_identity<float>(op, memory);
      break;
    case DType::kF64:
      fill_identity<double>(op, memory);
      break;
    case DType::kF16:
      fill_identity16(op, 0x3C00, 0x7C00, memory);
      break;
    case DType::kBF16:
      fill_identity16(op, 0x3F80, 0x7F80, memory);
      break;
    case DType::kI8:
      fill_identity<std::int8_t>(op, memory);
      break;
    case DType::kU8:
    case DType::kBool:
      fill_identity<std::uint8_t>(op, memory);
      break;
    case DType::kI16:
      fill_identity<std::int16_t>(op, memory);
      break;
    case DType::kI32:
      fill_identity<std::int32_t>(op, memory);
      break;
    case DType::kI64:
      fill_identity<std::int64_t>(op, memory);
      break;
  }
  return memory;
}

}  // namespace

std::string describe(const OpRequest& request) {
  std::string text(name_of(request.kind));
  const bool reduces = request.kind == Kind::kAllReduce || request.kind == Kind::kDeviceSum;
  if (reduces) text += fmt::format(" {}", name_of(request.op));
  if (request.kind != Kind::kBarrier && request.kind != Kind::kJoined) {
    text += fmt::format(" of {} {}", request.count, trireme::name_of(request.dtype));
    if (!reduces) text += fmt::format(" rows of {} bytes", request.row_bytes);
  }
  if (request.codec != codec::Kind::kNone) {
    text += fmt::format(" as {}", codec::to_string({.kind = request.codec, .ratio = request.ratio}));
  }
  if (request.kind == Kind::kBroadcast) text += fmt::format(" from rank {}", request.root);
  if (const auto label = label_of(request); !label.empty()) text += fmt::format(" '{}'", label);
  return text;
}

std::string disagreement(std::span<const OpRequest> all) {
  const auto first = std::ranges::find_if_not(all, &OpRequest::joined);
  for (auto other = first; other != all.end(); ++other) {
    if (other->joined() || agree(*first, *other)) continue;
    return fmt::format(
        "the ranks do not agree: rank {} wants {}, rank {} wants {}; all ranks must make the same calls in the same "
        "order",
        first - all.begin(), describe(*first), other - all.begin(), describe(*other));
  }
  return {};
}

struct Negotiation::Outcome::State {
  OpRequest mine;
  std::vector<OpRequest> all;
  collective::PendingOperation gather;  // last: it works on the memory above
};

const std::vector<OpRequest>& Negotiation::Outcome::all() {
  state_->gather.wait();
  if (const std::string problem = disagreement(state_->all); !problem.empty()) fail<InvalidArgument>("{}", problem);
  return state_->all;
}

std::uint32_t Negotiation::Outcome::contributors() {
  return static_cast<std::uint32_t>(std::ranges::count_if(all(), [](const auto& each) { return !each.joined(); }));
}

Negotiation::Outcome Negotiation::negotiate(OpRequest mine, const std::string& name) {
  return begin(mine, name, false);
}

Negotiation::Outcome Negotiation::start(OpRequest mine, const std::string& name) { return begin(mine, name, true); }

Negotiation::Outcome Negotiation::begin(OpRequest mine, const std::string& name, bool in_background) {
  std::erase_if(on_their_way_, [](const auto& state) { return state->gather.poll(); });
  if (!mine.joined()) ++calls_;
  ++rounds_;
  mine.calls = calls_;
  name.copy(mine.label.data(), mine.label.size() - 1);
  Outcome outcome;
  outcome.state_ = std::make_shared<Outcome::State>();
  outcome.state_->mine = mine;
  outcome.state_->all.resize(ranks_.size());
  if (ranks_.size() == 1) {
    outcome.state_->all.front() = mine;
    return outcome;
  }
  collective::Operation gather = collective::all_gather(
      collective::ConstArray(DType::kU8, &outcome.state_->mine, sizeof(OpRequest)),
      collective::Array(DType::kU8, outcome.state_->all.data(), outcome.state_->all.size() * sizeof(OpRequest)));
  gather.label = "to agree on " + describe(mine);
  if (!in_background) {
    ranks_.run(std::move(gather));
    return outcome;
  }
  outcome.state_->gather = collective::PendingOperation(ranks_, std::move(gather));
  on_their_way_.push_back(outcome.state_);
  return outcome;
}

Rank Negotiation::join() {
  for (;;) {
    Outcome outcome = negotiate({.kind = Kind::kJoined}, {});
    const std::vector<OpRequest>& all = outcome.all();
    const auto working = std::ranges::find_if_not(all, &OpRequest::joined);
    if (working == all.end()) {
      calls_ = 0;
      // Who joined last has announced the most.
      const auto last = std::max_element(all.rbegin(), all.rend(),
                                         [](const OpRequest& a, const OpRequest& b) { return a.calls < b.calls; });
      return static_cast<Rank>(all.rend() - last - 1);
    }
    contribute_identity(all, *working);
  }
}

void Negotiation::contribute_identity(const std::vector<OpRequest>& all, const OpRequest& theirs) {
  const collective::ConstArray nothing(DType::kU8, nullptr, 0);
  switch (theirs.kind) {
    case Kind::kJoined:
    case Kind::kBarrier:
      return;
    case Kind::kAllReduce:
      return contribute_identity_to_all_reduce(theirs);
    case Kind::kDeviceSum:
      TRIREME_CHECK(device_sum_ != nullptr, "the others sum on their GPUs, and this rank has none of it");
      return device_sum_();
    case Kind::kBroadcast: {
      if (all[theirs.root].joined()) return;  // they know, and give it up
      std::vector<std::byte> heard(theirs.count * theirs.row_bytes);
      return ranks_.run(collective::broadcast(collective::Array(DType::kU8, heard.data(), heard.size()), theirs.root));
    }
    case Kind::kAllGather: {
      std::vector<std::size_t> counts;
      std::size_t total = 0;
      for (const OpRequest& each : all) total += counts.emplace_back(each.joined() ? 0 : each.count * each.row_bytes);
      std::vector<std::byte> heard(total);
      return ranks_.run(
          collective::all_gather(nothing, collective::Array(DType::kU8, heard.data(), total), std::move(counts)));
    }
    case Kind::kAllToAll: {
      const std::size_t size = ranks_.size();
      const std::vector<std::size_t> rows = gather_row_counts(ranks_, std::vector<std::size_t>(size, 0));
      std::vector<std::size_t> from;
      std::size_t total = 0;
      for (std::size_t rank = 0; rank < size; ++rank) {
        total += from.emplace_back(rows[rank * size + ranks_.rank()] * theirs.row_bytes);
      }
      std::vector<std::byte> heard(total);
      return ranks_.run(collective::all_to_all(nothing, collective::Array(DType::kU8, heard.data(), total),
                                               std::vector<std::size_t>(size, 0), std::move(from)));
    }
  }
}

void Negotiation::contribute_identity_to_all_reduce(const OpRequest& theirs) {
  const std::size_t piece = theirs.piece > 0 ? theirs.piece : theirs.count;
  std::size_t left = theirs.count;
  do {
    const std::size_t count = std::min<std::size_t>(left, piece);
    std::vector<std::byte> values = identities(theirs.dtype, theirs.op, count);
    if (theirs.codec == codec::Kind::kNone) {
      ranks_.run(collective::all_reduce(collective::Array(theirs.dtype, values.data(), count), {.op = theirs.op}));
    } else {
      const codec::Spec spec{.kind = theirs.codec, .ratio = theirs.ratio, .error_feedback = false};
      std::vector<float> zeros(count);
      collective::CompressedReduce reduce(ranks_, spec, count, {.op = theirs.op});
      reduce.start(zeros, 0);
      reduce.finish();
    }
    left -= count;
  } while (left > 0);
}

std::vector<std::size_t> gather_row_counts(collective::Communicator& ranks, const std::vector<std::size_t>& to_each) {
  static_assert(sizeof(std::size_t) == sizeof(std::int64_t));
  std::vector<std::size_t> all(to_each.size() * ranks.size());
  ranks.run(collective::all_gather(collective::ConstArray(DType::kI64, to_each.data(), to_each.size()),
                                   collective::Array(DType::kI64, all.data(), all.size())));
  return all;
}

}  // namespace trireme::dist
