#pragma once

#include <algorithm>
#include <span>
#include <thread>
#include <vector>

#include "trireme/deadline.h"

#include "collective/call_signature.h"
#include "net/shm/spin.h"

namespace trireme::collective {

// What every engine needs to keep the contract of Backend: all ranks come to the same result about their calls.

/// Compares the ranks' calls; `calls` is by rank and the same on all ranks, so all come to the same result. Throws
/// InvalidArgument that names two ranks, including this one if it differs from any other.
void agree(Rank rank, std::span<const CallSignature> calls);

/// Returns what a rank shows of an all_to_all beside its call: what it gives to each rank, then what it takes.
std::vector<std::uint64_t> parts_of(const Operation& operation);

/// Compares what each rank gives with what the other takes; `parts` holds `parts_of` of all ranks, one after the other.
/// Throws InvalidArgument, the same on all ranks.
void agree_on_parts(const Operation& operation, std::span<const std::uint64_t> parts, std::uint32_t size);

/// Returns the lanes of which each rank's values are a partial sum.
std::vector<LaneRange> lanes_of(const Operation& operation, std::uint32_t size);

/// Returns the message for both sides when they disagree about a message.
std::string describe_message_mismatch(Rank sender, const ConstArray& sent, Rank receiver, const ConstArray& received);

/// Polls `done`: first without pause, then with naps in between, because these engines have nothing to sleep on.
/// Returns false if the deadline passed first. `done` may throw.
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
