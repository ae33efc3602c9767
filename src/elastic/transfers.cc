#include "elastic/transfers.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::uint64_t kPartBytes = 4 * kMiB;    // of one transfer at a time
constexpr std::uint64_t kBatchBytes = 16 * kMiB;  // of all transfers at a time

/// Returns the range that holds byte `offset` of `tensor`; null if there is none.
const StateRange* find(const StateRanges& ranges, std::uint32_t tensor, std::uint64_t offset) {
  const auto after = std::ranges::upper_bound(ranges, std::pair(tensor, offset), {}, [](const StateRange& range) {
    return std::pair(range.tensor, range.offset);
  });
  if (after == ranges.begin()) return nullptr;
  const StateRange& range = *std::prev(after);
  return range.tensor == tensor && offset < range.offset + range.length ? &range : nullptr;
}

/// Where the next range of `tensor` after byte `offset` begins.
std::uint64_t next_begin(const StateRanges& ranges, std::uint32_t tensor, std::uint64_t offset, std::uint64_t end) {
  const auto after = std::ranges::upper_bound(ranges, std::pair(tensor, offset), {}, [](const StateRange& range) {
    return std::pair(range.tensor, range.offset);
  });
  return after != ranges.end() && after->tensor == tensor ? std::min(after->offset, end) : end;
}

/// Merges what is missing for several ranks.
void normalize(StateRanges& ranges) {
  std::ranges::sort(ranges, {}, [](const StateRange& range) { return std::pair(range.tensor, range.offset); });
  StateRanges merged;
  for (const StateRange& range : ranges) {
    if (!merged.empty() && merged.back().tensor == range.tensor &&
        range.offset <= merged.back().offset + merged.back().length) {
      StateRange& last = merged.back();
      last.length = std::max(last.offset + last.length, range.offset + range.length) - last.offset;
    } else {
      merged.push_back(range);
    }
  }
  ranges = std::move(merged);
}

/// Parts of transfers that travel together.
struct TransferBatch {
  std::vector<Transfer> parts;

  /// How many bytes this rank gives to each, or gets from each.
  std::vector<std::size_t> counts(Rank self, std::uint32_t ranks, bool given) const {
    std::vector<std::size_t> result(ranks);
    for (const Transfer& part : parts) {
      if ((given ? part.from : part.to) == self) result[given ? part.to : part.from] += part.range.length;
    }
    return result;
  }
};

void run_batch(collective::Communicator& ranks, const TransferBatch& batch,
               const std::function<void(const StateRange&, MutableBytes)>& read,
               const std::function<void(const StateRange&, Bytes)>& write) {
  const auto to = batch.counts(ranks.rank(), ranks.size(), /*given=*/true);
  const auto from = batch.counts(ranks.rank(), ranks.size(), /*given=*/false);
  std::vector<std::byte> given(std::reduce(to.begin(), to.end()));
  std::vector<std::byte> got(std::reduce(from.begin(), from.end()));
  // What one rank gives another is in the order of the plan, which both know.
  std::vector<std::size_t> at(ranks.size());
  std::exclusive_scan(to.begin(), to.end(), at.begin(), std::size_t{0});
  for (const Transfer& part : batch.parts) {
    if (part.from != ranks.rank()) continue;
    read(part.range, MutableBytes(given).subspan(at[part.to], part.range.length));
    at[part.to] += part.range.length;
  }
  ranks.run(collective::all_to_all(collective::ConstArray(DType::kU8, given.data(), given.size()),
                                   collective::Array(DType::kU8, got.data(), got.size()), to, from));
  std::exclusive_scan(from.begin(), from.end(), at.begin(), std::size_t{0});
  for (const Transfer& part : batch.parts) {
    if (part.to != ranks.rank()) continue;
    write(part.range, Bytes(got).subspan(at[part.from], part.range.length));
    at[part.from] += part.range.length;
  }
}

}  // namespace

TransferPlan plan_transfers(std::span<const StateRanges> has, std::span<const StateRanges> needs) {
  TransferPlan plan;
  std::vector<std::uint64_t> sends(has.size());
  for (Rank to = 0; to < needs.size(); ++to) {
    for (const StateRange& need : needs[to]) {
      const std::uint64_t end = need.offset + need.length;
      for (std::uint64_t at = need.offset; at < end;) {
        std::optional<Rank> best = find(has[to], need.tensor, at) != nullptr ? std::optional(to) : std::nullopt;
        for (Rank from = 0; !best.has_value() || *best != to; ++from) {
          if (from == has.size()) break;
          const bool holds = find(has[from], need.tensor, at) != nullptr;
          if (holds && (!best || sends[from] < sends[*best])) best = from;
        }
        std::uint64_t until = end;
        if (best) {
          const StateRange* range = find(has[*best], need.tensor, at);
          until = std::min(end, range->offset + range->length);
          if (*best != to) until = next_begin(has[to], need.tensor, at, until);
          plan.transfers.push_back({*best, to, {need.tensor, at, until - at}});
          if (*best != to) sends[*best] += until - at;
        } else {
          for (const StateRanges& holder : has) until = next_begin(holder, need.tensor, at, until);
          plan.missing.push_back({need.tensor, at, until - at});
        }
        at = until;
      }
    }
  }
  normalize(plan.missing);
  return plan;
}

void run_transfers(collective::Communicator& ranks, std::span<const Transfer> transfers,
                   const std::function<void(const StateRange&, MutableBytes)>& read,
                   const std::function<void(const StateRange&, Bytes)>& write) {
  TransferBatch batch;
  std::uint64_t bytes = 0;
  std::vector<std::byte> own;
  const auto flush = [&] {
    if (!batch.parts.empty()) run_batch(ranks, batch, read, write);
    batch.parts.clear();
    bytes = 0;
  };
  for (const Transfer& transfer : transfers) {
    for (std::uint64_t done = 0; done < transfer.range.length;) {
      const std::uint64_t size = std::min(kPartBytes, transfer.range.length - done);
      const StateRange part{transfer.range.tensor, transfer.range.offset + done, size};
      done += size;
      if (transfer.from == transfer.to) {
        if (transfer.to != ranks.rank()) continue;
        own.resize(size);
        read(part, own);
        write(part, own);
        continue;
      }
      if (bytes + size > kBatchBytes) flush();
      batch.parts.push_back({transfer.from, transfer.to, part});
      bytes += size;
    }
  }
  flush();
}

std::vector<std::string> gather_texts(collective::Communicator& ranks, const std::string& text) {
  const auto size = static_cast<std::int64_t>(text.size());
  std::vector<std::int64_t> sizes(ranks.size());
  ranks.run(collective::all_gather(collective::ConstArray(DType::kI64, &size, 1),
                                   collective::Array(DType::kI64, sizes.data(), sizes.size())));
  const std::vector<std::size_t> counts(sizes.begin(), sizes.end());
  std::string all(std::reduce(counts.begin(), counts.end()), '\0');
  ranks.run(collective::all_gather(collective::ConstArray(DType::kU8, text.data(), text.size()),
                                   collective::Array(DType::kU8, all.data(), all.size()), counts));
  std::vector<std::string> texts;
  std::size_t at = 0;
  for (const std::size_t count : counts) {
    texts.push_back(all.substr(at, count));
    at += count;
  }
  return texts;
}

}  // namespace trireme
