#include "collective/engine_support.h"

#include "base/error.h"

namespace trireme::collective {

void agree(Rank rank, std::span<const CallSignature> calls) {
  const auto differs_from = [&](const CallSignature& call) {
    return std::ranges::find_if(calls, [&](const CallSignature& other) { return !match(call, other); });
  };
  const auto place = [&](auto call) { return static_cast<Rank>(call - calls.begin()); };
  if (const auto other = differs_from(calls[rank]); other != calls.end()) {
    fail<InvalidArgument>("{}", describe_mismatch(rank, calls[rank], place(other), *other));
  }
  // Calls without elements say nothing about their type and match whatever it is. To get the same result on all ranks,
  // all are compared with one that has elements.
  const auto telling = std::ranges::find_if(calls, [](const CallSignature& call) { return call.count > 0; });
  if (telling == calls.end()) return;
  if (const auto other = differs_from(*telling); other != calls.end()) {
    fail<InvalidArgument>("{}", describe_mismatch(place(telling), *telling, place(other), *other));
  }
}

std::vector<std::uint64_t> parts_of(const Operation& operation) {
  std::vector<std::uint64_t> parts(operation.in_counts.begin(), operation.in_counts.end());
  parts.insert(parts.end(), operation.out_counts.begin(), operation.out_counts.end());
  return parts;
}

namespace {
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 48;  // no memory holds more; their bytes can be counted
}

void agree_on_parts(const Operation& operation, std::span<const std::uint64_t> parts, std::uint32_t size) {
  for (Rank from = 0; from < size; ++from) {
    for (Rank to = 0; to < size; ++to) {
      const std::uint64_t gives = parts[2 * std::size_t{size} * from + to];
      const std::uint64_t takes = parts[2 * std::size_t{size} * to + size + from];
      if (gives == takes && gives <= kMostElements) continue;
      fail<InvalidArgument>("the ranks do not agree in {}: rank {} gives {} elements to rank {}, which takes {}",
                            name_of(operation.kind), from, gives, to, takes);
    }
  }
}

std::vector<LaneRange> lanes_of(const Operation& operation, std::uint32_t size) {
  if (!operation.reduce.lanes.empty()) return operation.reduce.lanes;
  std::vector<LaneRange> lanes;
  for (Lane lane = 0; lane < size; ++lane) lanes.push_back({lane, 1});
  return lanes;
}

std::string describe_message_mismatch(Rank sender, const ConstArray& sent, Rank receiver, const ConstArray& received) {
  return fmt::format("the ranks do not agree: rank {} sends {} {}, rank {} receives {} {}", sender, sent.count,
                     name_of(sent.dtype), receiver, received.count, name_of(received.dtype));
}

}  // namespace trireme::collective
