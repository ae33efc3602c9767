#include "launch/job/chief_output.h"

#include <utility>

#include <fmt/format.h>

namespace trireme::launch {

std::string ChiefOutput::next_lines() {
  std::string lines = former_ ? without_routine(former_->next_lines()) : "";
  const std::string own = without_routine(log_.next_lines());
  if (!lines.empty() && !own.empty()) lines += "\n";
  return lines + own;
}

void ChiefOutput::follow(View view, std::uint32_t slot) {
  if (view == std::exchange(view_, view)) return;
  former_.reset();
  if (slot == std::exchange(slot_, slot)) return;
  former_ = std::move(log_);
  log_ = LogFollower(folder_.log(fmt::format("worker {}", slot)));  // what it printed before was not a chief's
}

}  // namespace trireme::launch
