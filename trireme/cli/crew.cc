#include "trireme/cli/crew.h"

#include <csignal>

namespace trireme::cli {

std::uint32_t Crew::slot_of(const std::string& process) {
  return static_cast<std::uint32_t>(std::stoul(process.substr(process.find(' ') + 1)));
}

void Crew::start_all(Time now) {
  for (std::uint32_t slot = 0; slot < wanted_; ++slot) start(slot, now);
}

void Crew::start(std::uint32_t slot, Time now) {
  restarts_.on_start(slot, now);
  pids_[slot] = start_(slot);
}

bool Crew::note_end(std::uint32_t slot, Time now) {
  pids_.erase(slot);
  if (dismissed_.erase(slot) == 0) return false;
  if (slot < wanted_) restart_at_[slot] = now;  // it is needed again by now
  return true;
}

launch::RestartDecision Crew::restart(std::uint32_t slot, Time now) {
  const launch::RestartDecision decision = restarts_.on_end(slot, now);
  if (decision.again) restart_at_[slot] = decision.at;
  return decision;
}

void Crew::start_due(Time now) {
  for (auto entry = restart_at_.begin(); entry != restart_at_.end();) {
    const auto [slot, at] = *entry;
    if (at > now) {
      ++entry;
      continue;
    }
    entry = restart_at_.erase(entry);
    restarted_.insert(slot);
    if (slot < wanted_) start(slot, now);
  }
}

void Crew::resize(std::uint32_t wanted, bool to_be_told, Time now) {
  wanted_ = wanted;
  for (std::uint32_t slot = 0; slot < wanted_; ++slot) {
    if (!pids_.contains(slot) && !restart_at_.contains(slot)) start(slot, now);
  }
  for (const auto& [slot, pid] : pids_) {
    if (!to_be_told || slot < wanted_ || !dismissed_.insert(slot).second) continue;
    ::kill(pid, SIGTERM);  // it hands its work over and ends
  }
}

}  // namespace trireme::cli
