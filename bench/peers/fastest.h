#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/peers/measure.h"

namespace trireme::bench {

/// One of several ways in which a library can all-reduce a buffer.
struct Candidate {
  std::string name;
  std::function<void()> use;  ///< makes it the one that `AllReducer::all_reduce` runs
};

/// Uses the fastest of `candidates` for `buffer`, the one being prepared: "best settings" without guessing. Same choice
/// on all ranks. They take turns, so that a machine that slows down for a second does so for all of them, and the
/// median of its turns counts. Those far behind in every turn and those whose sums are wrong are left out. `verbose`:
/// rank 0 writes each turn to stderr. Throws std::runtime_error when none works.
inline void use_fastest(AllReducer& library, std::span<float> buffer, std::span<const Candidate> candidates,
                        bool verbose) {
  constexpr std::size_t kTurns = 5;
  constexpr std::size_t kTurnsForAll = 2;
  constexpr double kFarBehind = 3;
  constexpr double kLongEnough = 5;  // seconds: large buffers on crowded cores
  constexpr Effort kShort = {.warm_up_operations = 1, .warm_up = 0.005, .total = 0.03, .batches = 2};

  struct Contender {
    const Candidate* candidate;
    std::vector<double> times = {};
  };
  std::vector<Contender> contenders;
  const auto tell = [&](const Candidate& candidate, const std::string& what) {
    if (!verbose || library.rank() != 0) return;
    std::fprintf(stderr, "%zu bytes: %s: %s\n", buffer.size_bytes(), candidate.name.c_str(), what.c_str());
  };
  for (const Candidate& candidate : candidates) {
    candidate.use();
    std::string failure = "fails in another rank";
    double failed = 1;
    try {
      const std::size_t wrong = wrong_sums(library, buffer);
      if (wrong > 0) failure = std::to_string(wrong) + " wrong sums";
      failed = wrong > 0 ? 1 : 0;
    } catch (const std::exception& error) {
      failure = error.what();
    }
    if (library.max(failed) > 0) {
      tell(candidate, "left out: " + failure);
    } else {
      contenders.push_back({&candidate});
    }
  }
  if (contenders.empty()) throw std::runtime_error("no algorithm works for this size; leave it out");

  double leader = std::numeric_limits<double>::infinity();
  const auto began = std::chrono::steady_clock::now();
  for (std::size_t turn = 0; turn < kTurns && contenders.size() > 1; ++turn) {
    if (turn >= kTurnsForAll) {
      std::erase_if(contenders, [&](const auto& each) { return std::ranges::min(each.times) > kFarBehind * leader; });
      const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
      if (library.max(spent) > kLongEnough) break;
    }
    for (auto& [candidate, times] : contenders) {
      candidate->use();
      times.push_back(measure(library, buffer, kShort));
      leader = std::min(leader, times.back());
      tell(*candidate, std::to_string(times.back() * 1e6) + " us");
    }
  }
  const auto figure = [](const Contender& each) { return each.times.empty() ? 0 : middle(each.times); };
  std::ranges::min_element(contenders, {}, figure)->candidate->use();
}

}  // namespace trireme::bench
