#include "launch/restart_policy.h"

#include <algorithm>

#include <fmt/format.h>

namespace trireme::launch {
namespace {

/// Returns `first`, doubled `times` times, but at most `most`.
std::chrono::milliseconds doubled(std::chrono::milliseconds first, std::uint32_t times,
                                  std::chrono::milliseconds most) {
  for (; times > 0 && first < most; --times) first *= 2;
  return std::min(first, most);
}

}  // namespace

void RestartPolicy::on_start(std::uint32_t slot, Time now) { records_[slot].started = now; }

RestartDecision RestartPolicy::on_end(std::uint32_t slot, Time now) {
  if (options_.limit == 0) return {.reason = "restarts are off"};
  Record& record = records_[slot];
  if (now - record.started >= options_.forgive_after) record = {.started = record.started};
  if (record.failures >= options_.limit) {
    const auto pause = doubled(options_.avoid_for, record.avoided++, 10 * options_.avoid_for);
    record.failures = options_.limit - 1;  // one more chance after the pause
    return {.again = true,
            .at = now + pause,
            .avoided = true,
            .reason = fmt::format("it failed {} times in a row: left alone for {:.0f} s", options_.limit + 1,
                                  seconds(pause))};
  }
  const auto pause = record.failures == 0 ? options_.first_pause
                                          : doubled(options_.next_pause, record.failures - 1, options_.longest_pause);
  ++record.failures;
  return {.again = true,
          .at = now + pause,
          .reason = fmt::format("restart {} of {}{}", record.failures, options_.limit,
                                pause > 0ms ? fmt::format(", in {:.1f} s", seconds(pause)) : "")};
}

}  // namespace trireme::launch
