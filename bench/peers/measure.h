#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace trireme::bench {

// How an all-reduce is measured: one method, included by the ranks of every implementation that is compared.
//
// Warm up; then batches of k operations, each batch started by a barrier. A rank's figure is the median of its batches;
// a row's is the slowest rank's. Large buffers are written by their rank before each operation, outside of the time
// that counts, as backward writes gradients: else a library that works on the same slices each time would find them in
// its caches. Small ones are reduced back to back. Nothing is decided by one rank's clock: times on which a decision
// rests are first made the maximum over ranks, so all ranks run the same number of operations.

/// What is measured: float32 sum in place, and the two helpers the method needs, of one library in one rank.
/// Every call but `rank` and `ranks` is collective: all ranks make the same calls in the same order. Each throws, or
/// ends the process, when a peer is lost or silent. One thread.
class AllReducer {
 public:
  virtual ~AllReducer() = default;

  virtual unsigned rank() const = 0;
  virtual unsigned ranks() const = 0;

  /// A buffer of `elements`, in the memory this library likes best, with the best settings for that size: what a user
  /// does once, outside of the training loop. Owned by the library, valid until the next call.
  virtual std::span<float> prepare(std::size_t elements) = 0;

  /// The prepared buffer becomes the sum of everybody's.
  virtual void all_reduce() = 0;

  virtual void barrier() = 0;

  /// The largest `value` of all ranks, on all ranks.
  virtual double max(double value) = 0;
};

/// How much is done for one figure.
struct Effort {
  std::size_t warm_up_operations = 3;  ///< at least
  double warm_up = 0.050;              ///< seconds, at least
  double batch = 0.002;                ///< seconds, at least: far above the clock's grain and the skew after a barrier
  double total = 0.4;                  ///< seconds of batches, about
  std::size_t batches = 11;            ///< at least, also where that takes longer than `total`
};

/// The middle one of `values` (the upper one of two). There is at least one.
inline double middle(std::vector<double> values) {
  const auto half = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), half, values.end());
  return *half;
}

/// From here on the skew of a barrier, a microsecond or so, does not matter beside the operation.
inline constexpr std::size_t kLargeBytes = 64u << 10;

/// Seconds that `operations` all-reduces of `buffer`, the prepared one, which holds zeros, take in this rank, begun
/// together with the others.
inline double time_batch(AllReducer& library, std::span<float> buffer, std::size_t operations) {
  using Clock = std::chrono::steady_clock;
  const bool large = buffer.size_bytes() >= kLargeBytes;
  Clock::duration time{};
  for (std::size_t i = 0; i < (large ? operations : 1); ++i) {
    if (large) std::ranges::fill(buffer, 0.0f);
    library.barrier();
    const auto began = Clock::now();
    for (std::size_t j = 0; j < (large ? 1 : operations); ++j) library.all_reduce();
    time += Clock::now() - began;
  }
  return std::chrono::duration<double>(time).count();
}

/// Seconds that one all-reduce of the prepared buffer takes: the slowest rank's median. Same result on all ranks.
inline double measure(AllReducer& library, std::span<float> buffer, const Effort& effort = {}) {
  double each = 0;
  double spent = 0;
  for (std::size_t operations = effort.warm_up_operations; spent < effort.warm_up; operations *= 2) {
    const double time = library.max(time_batch(library, buffer, operations));
    each = time / static_cast<double>(operations);
    spent += time;
  }
  const auto operations = static_cast<std::size_t>(std::ceil(effort.batch / each));
  const double batch = each * static_cast<double>(operations);
  const auto batches = std::max(effort.batches, static_cast<std::size_t>(effort.total / batch));
  std::vector<double> times;
  for (std::size_t i = 0; i < batches; ++i) {
    times.push_back(time_batch(library, buffer, operations) / static_cast<double>(operations));
  }
  return library.max(middle(std::move(times)));
}

/// How many elements one all-reduce of `buffer`, the prepared one, gets wrong in this rank, tried with numbers that
/// float32 adds exactly. Leaves zeros: they stay what they are however often they are summed in place.
inline std::size_t wrong_sums(AllReducer& library, std::span<float> buffer) {
  constexpr std::size_t kPeriod = 1009;  // a prime: a slice that went to the wrong place does not look right
  const auto ranks = static_cast<float>(library.ranks());
  for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = static_cast<float>(library.rank() + 1 + i % kPeriod);
  library.all_reduce();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < buffer.size(); ++i) {
    if (buffer[i] != ranks * (ranks + 1) / 2 + ranks * static_cast<float>(i % kPeriod)) ++wrong;
  }
  std::ranges::fill(buffer, 0.0f);
  return wrong;
}

/// Measures each of `sizes` (bytes, multiples of 4, not 0); rank 0 writes one line of JSON per size to `out`.
/// Bandwidths in 10^9 bytes per second: `algbw_gbps` of the buffer, `busbw_gbps` of what each rank has to send at
/// least. Throws std::runtime_error, on all ranks, when a sum is wrong.
inline void measure_sizes(AllReducer& library, const std::string& impl, const std::string& transport,
                          const std::vector<std::size_t>& sizes, std::ostream& out) {
  const double ranks = library.ranks();
  for (const std::size_t bytes : sizes) {
    const std::span<float> buffer = library.prepare(bytes / sizeof(float));
    const auto wrong = static_cast<double>(wrong_sums(library, buffer));
    if (library.max(wrong) > 0) {
      throw std::runtime_error(impl + " over " + transport + " gives wrong sums of " + std::to_string(bytes) +
                               " bytes on " + std::to_string(library.ranks()) +
                               " ranks: its speed means nothing, leave this size out and report it to its authors");
    }
    const double time = measure(library, buffer);
    const double gbps = static_cast<double>(bytes) / time / 1e9;
    if (library.rank() != 0) continue;
    const nlohmann::ordered_json row = {{"impl", impl},
                                        {"transport", transport},
                                        {"ranks", library.ranks()},
                                        {"bytes", bytes},
                                        {"median_us", time * 1e6},
                                        {"algbw_gbps", gbps},
                                        {"busbw_gbps", gbps * 2 * (ranks - 1) / ranks}};
    out << row << std::endl;  // flushed: whoever reads shows rows as they come
  }
}

}  // namespace trireme::bench
