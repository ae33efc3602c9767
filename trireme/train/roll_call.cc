#include "trireme/train/roll_call.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "trireme/base/error.h"
#include "trireme/train/coded_reduce.h"

namespace trireme::dist {
namespace {

using Kind = Announcement::Kind;

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
  }
  return "?";
}

std::string_view label_of(const Announcement& announcement) {
  const auto end = std::ranges::find(announcement.label, '\0');
  return {announcement.label.data(), static_cast<std::size_t>(end - announcement.label.begin())};
}

bool agree(const Announcement& a, const Announcement& b) {
  const bool same_call = a.kind == b.kind && a.dtype == b.dtype && a.root == b.root && a.label == b.label;
  if (!same_call || a.kind == Kind::kBarrier) return same_call;
  if (a.kind == Kind::kAllReduce) {
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

std::string describe(const Announcement& announcement) {
  std::string text(name_of(announcement.kind));
  if (announcement.kind == Kind::kAllReduce) text += fmt::format(" {}", name_of(announcement.op));
  if (announcement.kind != Kind::kBarrier && announcement.kind != Kind::kJoined) {
    text += fmt::format(" of {} {}", announcement.count, trireme::name_of(announcement.dtype));
    if (announcement.kind != Kind::kAllReduce) text += fmt::format(" rows of {} bytes", announcement.row_bytes);
  }
  if (announcement.codec != codec::Kind::kNone) {
    text += fmt::format(" as {}", codec::to_string({.kind = announcement.codec, .ratio = announcement.ratio}));
  }
  if (announcement.kind == Kind::kBroadcast) text += fmt::format(" from rank {}", announcement.root);
  if (const auto label = label_of(announcement); !label.empty()) text += fmt::format(" '{}'", label);
  return text;
}

std::string disagreement(std::span<const Announcement> all) {
  const auto first = std::ranges::find_if_not(all, &Announcement::joined);
  for (auto other = first; other != all.end(); ++other) {
    if (other->joined() || agree(*first, *other)) continue;
    return fmt::format(
        "the ranks do not agree: rank {} wants {}, rank {} wants {}; all ranks must make the same calls in the same "
        "order",
        first - all.begin(), describe(*first), other - all.begin(), describe(*other));
  }
  return {};
}

struct RollCall::Round::State {
  Announcement mine;
  std::vector<Announcement> all;
  Pending exchange;  // last: it works on the memory above
};

const std::vector<Announcement>& RollCall::Round::all() {
  state_->exchange.wait();
  if (const std::string problem = disagreement(state_->all); !problem.empty()) fail<InvalidArgument>("{}", problem);
  return state_->all;
}

std::uint32_t RollCall::Round::contributors() {
  return static_cast<std::uint32_t>(std::ranges::count_if(all(), [](const auto& each) { return !each.joined(); }));
}

RollCall::Round RollCall::meet(Announcement mine, const std::string& name) { return begin(mine, name, false); }

RollCall::Round RollCall::start(Announcement mine, const std::string& name) { return begin(mine, name, true); }

RollCall::Round RollCall::begin(Announcement mine, const std::string& name, bool in_background) {
  std::erase_if(on_their_way_, [](const auto& state) { return state->exchange.poll(); });
  if (!mine.joined()) ++calls_;
  ++rounds_;
  mine.calls = calls_;
  name.copy(mine.label.data(), mine.label.size() - 1);
  Round round;
  round.state_ = std::make_shared<Round::State>();
  round.state_->mine = mine;
  round.state_->all.resize(ranks_.size());
  if (ranks_.size() == 1) {
    round.state_->all.front() = mine;
    return round;
  }
  collective::Operation exchange = collective::all_gather(
      collective::ConstArray(DType::kU8, &round.state_->mine, sizeof(Announcement)),
      collective::Array(DType::kU8, round.state_->all.data(), round.state_->all.size() * sizeof(Announcement)));
  exchange.label = "roll call";
  if (!in_background) {
    ranks_.run(std::move(exchange));
    return round;
  }
  round.state_->exchange = Pending(ranks_, std::move(exchange));
  on_their_way_.push_back(round.state_);
  return round;
}

Rank RollCall::join() {
  for (;;) {
    Round round = meet({.kind = Kind::kJoined}, {});
    const std::vector<Announcement>& all = round.all();
    const auto working = std::ranges::find_if_not(all, &Announcement::joined);
    if (working == all.end()) {
      calls_ = 0;
      // Who joined last has announced the most.
      const auto last = std::max_element(
          all.rbegin(), all.rend(), [](const Announcement& a, const Announcement& b) { return a.calls < b.calls; });
      return static_cast<Rank>(all.rend() - last - 1);
    }
    shadow(all, *working);
  }
}

void RollCall::shadow(const std::vector<Announcement>& all, const Announcement& theirs) {
  const collective::ConstArray nothing(DType::kU8, nullptr, 0);
  switch (theirs.kind) {
    case Kind::kJoined:
    case Kind::kBarrier:
      return;
    case Kind::kAllReduce:
      return shadow_all_reduce(theirs);
    case Kind::kBroadcast: {
      if (all[theirs.root].joined()) return;  // they know, and give it up
      std::vector<std::byte> heard(theirs.count * theirs.row_bytes);
      return ranks_.run(collective::broadcast(collective::Array(DType::kU8, heard.data(), heard.size()), theirs.root));
    }
    case Kind::kAllGather: {
      std::vector<std::size_t> counts;
      std::size_t total = 0;
      for (const Announcement& each : all)
        total += counts.emplace_back(each.joined() ? 0 : each.count * each.row_bytes);
      std::vector<std::byte> heard(total);
      return ranks_.run(
          collective::all_gather(nothing, collective::Array(DType::kU8, heard.data(), total), std::move(counts)));
    }
    case Kind::kAllToAll: {
      const std::size_t size = ranks_.size();
      const std::vector<std::size_t> rows = exchange_rows(ranks_, std::vector<std::size_t>(size, 0));
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

void RollCall::shadow_all_reduce(const Announcement& theirs) {
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
      CodedReduce reduce(ranks_, spec, count, {.op = theirs.op});
      reduce.start(zeros, 0);
      reduce.finish();
    }
    left -= count;
  } while (left > 0);
}

std::vector<std::size_t> exchange_rows(collective::Communicator& ranks, const std::vector<std::size_t>& to_each) {
  static_assert(sizeof(std::size_t) == sizeof(std::int64_t));
  std::vector<std::size_t> all(to_each.size() * ranks.size());
  ranks.run(collective::all_gather(collective::ConstArray(DType::kI64, to_each.data(), to_each.size()),
                                   collective::Array(DType::kI64, all.data(), all.size())));
  return all;
}

}  // namespace trireme::dist
