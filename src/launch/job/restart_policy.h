#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trireme/deadline.h"

namespace trireme::launch {

struct RestartOptions {
  std::uint32_t limit = 3;                       ///< restarts of one slot before it is avoided; 0 = none at all
  std::chrono::milliseconds first_pause = 0ms;   ///< before the first restart
  std::chrono::milliseconds next_pause = 500ms;  ///< before the second; doubles from there
  std::chrono::milliseconds longest_pause = 30s;
  std::chrono::milliseconds forgive_after = 60s;  ///< a process that ran this long has a clean record again
  /// How long a slot that failed too often is left alone; doubles. nullopt = forever.
  std::optional<std::chrono::milliseconds> avoid_for = 60s;
};

/// What to do about a process that ended, and why.
struct RestartDecision {
  bool again = false;                   ///< start it again
  Deadline::Clock::time_point at = {};  ///< when
  bool avoided = false;                 ///< it failed too often: only after a long pause
  std::string reason;
};

/// Decides when to restart which process. A failure counts only until something was achieved after it. Counts per slot,
/// not per host: one bad program does not affect its neighbours. A value: the caller passes the time.
class RestartPolicy {
 public:
  using Time = Deadline::Clock::time_point;

  explicit RestartPolicy(RestartOptions options = {}) : options_(options) {}

  void on_start(std::uint32_t slot, Time now);
  RestartDecision on_end(std::uint32_t slot, Time now);

  /// The process in this slot has achieved something: its slot has a clean record again.
  void on_progress(std::uint32_t slot);

 private:
  struct Record {
    Time started;
    std::uint32_t failures = 0;  // since its record was last cleared
    std::uint32_t avoided = 0;   // how often
  };

  RestartDecision avoid(Record& record, Time now) const;

  RestartOptions options_;
  std::map<std::uint32_t, Record> records_;
};

}  // namespace trireme::launch
