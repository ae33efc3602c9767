#pragma once

#include <algorithm>
#include <span>
#include <thread>
#include <vector>

#include "trireme/deadline.h"

#include "collective/call_signature.h"
#include "net/shm/spin.h"

namespace trireme::collective {

// What every engine needs to keep the promises of Backend: all ranks come to the same verdict about their calls.

/// Compares what the ranks ask for; `calls` is by rank and the same on all ranks, so all come to the same verdict.
/// Throws InvalidArgument that names two ranks, this one among them if it differs from anybody.
void agree(Rank rank, std::span<const CallSignature> calls);

/// What a rank shows of an all_to_all beside its call: what it gives to each rank, then what it takes from each.
std::vector<std::uint64_t> parts_of(const Operation& operation);

/// Compares what each rank gives with what the other takes; `parts` holds the `parts_of` of all ranks, one after the
/// other. Throws InvalidArgument, the same on all ranks.
void agree_on_parts(const Operation& operation, std::span<const std::uint64_t> parts, std::uint32_t size);

/// What each rank's values are a partial sum of.
std::vector<LaneRange> lanes_of(const Operation& operation, std::uint32_t size);

/// What both sides read when they disagree about a message.
std::string describe_message_mismatch(Rank sender, const ConstArray& sent, Rank receiver, const ConstArray& received);

/// Asks `done` again and again: at once for a while, then with naps in between, because these engines have nothing to
/// sleep on. False if the deadline passed first. `done` may throw.
template <typename Done>
bool wait_until(Done done, Deadline deadline) {
  constexpr std::chrono::microseconds kLongestNap{200};
  net::Spinner spinner;
  std::chrono::microseconds nap{10};
  while (!done()) {
    if (spinner.spin()) continue;
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(nap);
    nap = std::min(2 * nap, kLongestNap);
  }
  return true;
}

}  // namespace trireme::collective
