#include "ps/consistency.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/suggest.h"

namespace trireme::ps {

Consistency parse_consistency(const std::string& text) {
  if (text == "bsp") return {.mode = Consistency::Mode::kBsp};
  if (text == "asp") return {.mode = Consistency::Mode::kAsp};
  if (text.starts_with("ssp:")) {
    Consistency consistency{.mode = Consistency::Mode::kSsp};
    const char* end = text.data() + text.size();
    const auto [stopped, problem] = std::from_chars(text.data() + 4, end, consistency.slack);
    if (problem == std::errc() && stopped == end && text.size() > 4) return consistency;
    fail<InvalidArgument>("'{}': after 'ssp:' stands the largest lead in steps, such as ssp:4", text);
  }
  if (text == "ssp") fail<InvalidArgument>("'ssp' needs the largest lead in steps, such as ssp:4");
  fail<InvalidArgument>("unknown consistency '{}'{}: use bsp, ssp:<lead> or asp", text,
                        did_you_mean(text, {"bsp", "asp", "ssp:4"}));
}

std::string to_string(const Consistency& consistency) {
  switch (consistency.mode) {
    case Consistency::Mode::kBsp:
      return "bsp";
    case Consistency::Mode::kSsp:
      return fmt::format("ssp:{}", consistency.slack);
    case Consistency::Mode::kAsp:
      return "asp";
  }
  return "?";
}

void validate(const Consistency& consistency, std::uint32_t workers) {
  if (to_string(consistency) == "?") {
    fail<InvalidArgument>("unknown consistency mode {}", static_cast<int>(consistency.mode));
  }
  if (consistency.backup_workers > 0 && consistency.mode != Consistency::Mode::kBsp) {
    fail<InvalidArgument>("backup workers make sense with bsp only, not with {}: nobody waits for all there",
                          to_string(consistency));
  }
  if (consistency.backup_workers >= workers) {
    fail<InvalidArgument>("{} backup workers of {}: at least one worker's gradient has to count",
                          consistency.backup_workers, workers);
  }
  if (consistency.damp_stale && consistency.mode == Consistency::Mode::kBsp) {
    fail<InvalidArgument>("gradients are never stale with bsp: damping needs ssp or asp");
  }
}

bool may_go_on(const Consistency& consistency, Step clock, Step slowest) {
  return consistency.mode != Consistency::Mode::kSsp || clock <= slowest || clock - slowest <= consistency.slack;
}

Step steps_of(const Consistency& consistency, Lane lanes, Step version) {
  return consistency.synchronous() ? version : version / lanes;
}

double staleness_factor(const Consistency& consistency, Step staleness) {
  return consistency.damp_stale && staleness > 1 ? 1.0 / static_cast<double>(staleness) : 1.0;
}

}  // namespace trireme::ps
