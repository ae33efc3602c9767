#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "collective/communicator.h"

namespace trireme {

/// Some consecutive bytes of one of the tensors that the ranks of a job hold together, each a part of them.
struct StateRange {
  std::uint32_t tensor = 0;  ///< its place in a list that all ranks have
  std::uint64_t offset = 0;  ///< in the tensor
  std::uint64_t length = 0;

  bool operator==(const StateRange&) const = default;
};

/// Which ranges of the state a rank has, or needs: by tensor and offset, without overlaps.
using StateRanges = std::vector<StateRange>;

/// One rank gives another (or itself, in another place) a range that it has.
struct Transfer {
  Rank from = 0;
  Rank to = 0;
  StateRange range;

  bool operator==(const Transfer&) const = default;
};

struct TransferPlan {
  std::vector<Transfer> transfers;  ///< by receiver, tensor and offset
  StateRanges missing;              ///< what somebody needs and nobody has; by tensor and offset
};

/// Finds for everything that a rank needs a rank that has it: itself where it can, else of those that have it the one
/// with the least to send so far. Both lists are by rank. A pure function, so all ranks make the same plan.
TransferPlan plan_transfers(std::span<const StateRanges> has, std::span<const StateRanges> needs);

/// Carries out a plan, all ranks together, a few MiB at a time. `read` is called where a range is had, for consecutive
/// parts of it; `write` where it is needed, likewise; both may be given the whole of it in parts. Throws as
/// Communicator::run, and what `read` throws.
void run_transfers(collective::Communicator& ranks, std::span<const Transfer> transfers,
                   const std::function<void(const StateRange& range, MutableBytes to)>& read,
                   const std::function<void(const StateRange& range, Bytes from)>& write);

/// Returns every rank's `text`, by rank. A collective call. Throws as Communicator::run.
std::vector<std::string> gather_texts(collective::Communicator& ranks, const std::string& text);

}  // namespace trireme
