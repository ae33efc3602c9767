#include "launch/process_set.h"

#include <csignal>

namespace trireme::launch {

std::uint32_t ProcessSet::slot_of(const std::string& process) {
  return static_cast<std::uint32_t>(std::stoul(process.substr(process.find(' ') + 1)));
}

void ProcessSet::start_all(Time now) {
  for (std::uint32_t slot = 0; slot < wanted_; ++slot) start(slot, now);
}

void ProcessSet::start(std::uint32_t slot, Time now) {
  restarts_.on_start(slot, now);
  pids_[slot] = start_(slot);
}

bool ProcessSet::note_end(std::uint32_t slot, Time now) {
  pids_.erase(slot);
  if (released_.erase(slot) == 0) return false;
  if (slot < wanted_) restart_at_[slot] = now;  // it is needed again meanwhile
  return true;
}

RestartDecision ProcessSet::restart(std::uint32_t slot, Time now) {
  const RestartDecision decision = restarts_.on_end(slot, now);
  if (decision.again) restart_at_[slot] = decision.at;
  return decision;
}

void ProcessSet::start_due(Time now) {
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

void ProcessSet::resize(std::uint32_t wanted, bool to_be_told, Time now) {
  wanted_ = wanted;
  for (std::uint32_t slot = 0; slot < wanted_; ++slot) {
    if (!pids_.contains(slot) && !restart_at_.contains(slot)) start(slot, now);
  }
  for (const auto& [slot, pid] : pids_) {
    if (!to_be_told || slot < wanted_ || !released_.insert(slot).second) continue;
    ::kill(pid, SIGTERM);  // it hands over its work and ends
  }
}

}  // namespace trireme::launch
