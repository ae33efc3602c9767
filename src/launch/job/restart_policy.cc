#include "launch/job/restart_policy.h"

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

void RestartPolicy::on_progress(std::uint32_t slot) { records_[slot] = {.started = records_[slot].started}; }

RestartDecision RestartPolicy::on_end(std::uint32_t slot, Time now) {
  if (options_.limit == 0) return {.reason = "restarts are off"};
  Record& record = records_[slot];
  if (now - record.started >= options_.forgive_after) record = {.started = record.started};
  if (record.failures >= options_.limit) return avoid(record, now);
  const auto pause = record.failures == 0 ? options_.first_pause
                                          : doubled(options_.next_pause, record.failures - 1, options_.longest_pause);
  ++record.failures;
  return {.again = true,
          .at = now + pause,
          .reason = fmt::format("restart {} of {}{}", record.failures, options_.limit,
                                pause > 0ms ? fmt::format(", in {:.1f} s", seconds(pause)) : "")};
}

RestartDecision RestartPolicy::avoid(Record& record, Time now) const {
  const std::string reason =
      fmt::format("it failed {} times in a row and achieved nothing in between, with {} restarts allowed",
                  options_.limit + 1, options_.limit);
  if (!options_.avoid_for) return {.reason = reason};
  const auto pause = doubled(*options_.avoid_for, record.avoided++, 10 * *options_.avoid_for);
  record.failures = options_.limit - 1;  // one more chance after the pause
  return {.again = true,
          .at = now + pause,
          .avoided = true,
          .reason = fmt::format("{}: left alone for {:.0f} s", reason, seconds(pause))};
}

}  // namespace trireme::launch
