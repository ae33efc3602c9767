#include "launch/process_set.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "trireme/error.h"

namespace trireme::launch {

std::uint32_t ProcessSet::slot_of(const std::string& process) {
  return static_cast<std::uint32_t>(std::stoul(process.substr(process.find(' ') + 1)));
}

void ProcessSet::start_all(Time now) {
  for (std::uint32_t slot = 0; slot < wanted_; ++slot) start(slot, now);
}

void ProcessSet::start_these(const std::vector<std::uint32_t>& slots, Time now) {
  for (const std::uint32_t slot : slots) start(slot, now);
}

void ProcessSet::start(std::uint32_t slot, Time now) {
  restarts_.on_start(slot, now);
  started_in_[slot] = view_;
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
  if (decision.avoided) avoided_.insert(slot);
  return decision;
}

void ProcessSet::note_status(View view, const std::vector<std::uint32_t>& slots, bool advanced) {
  view_ = view;
  if (!advanced) return;
  for (const std::uint32_t slot : slots) {
    // A slot may still be in the view of a process that died: only in a later one it is the process that runs now.
    if (const auto started = started_in_.find(slot); started != started_in_.end() && view > started->second) {
      restarts_.on_progress(slot);
    }
  }
}

std::vector<pid_t> ProcessSet::latecomers() const {
  std::vector<pid_t> late;
  for (const auto& [slot, pid] : pids_) {
    if (came_later(slot) && started_in_.at(slot) >= view_) late.push_back(pid);
  }
  return late;
}

bool ProcessSet::hopeless() const {
  return pids_.empty() &&
         std::ranges::all_of(restart_at_, [this](const auto& entry) { return avoided_.contains(entry.first); });
}

void ProcessSet::start_due(Time now) {
  for (auto entry = restart_at_.begin(); entry != restart_at_.end();) {
    const auto [slot, at] = *entry;
    if (at > now) {
      ++entry;
      continue;
    }
    entry = restart_at_.erase(entry);
    avoided_.erase(slot);
    restarted_.insert(slot);
    if (slot >= wanted_) continue;
    try {
      start(slot, now);
    } catch (const Error&) {
      restart(slot, now);
      throw;
    }
  }
}

void ProcessSet::resize(std::uint32_t wanted, bool to_be_told, Time now) {
  const std::uint32_t before = std::exchange(wanted_, wanted);
  try {
    start_missing(now);
  } catch (const Error&) {
    wanted_ = before;
    if (to_be_told) release_surplus();
    throw;
  }
  if (to_be_told) release_surplus();
}

void ProcessSet::start_missing(Time now) {
  for (std::uint32_t slot = 0; slot < wanted_; ++slot) {
    if (!pids_.contains(slot) && !restart_at_.contains(slot)) start(slot, now);
  }
}

void ProcessSet::release_surplus() {
  for (const auto& [slot, pid] : pids_) {
    if (slot < wanted_ || !released_.insert(slot).second) continue;
    ::kill(pid, SIGTERM);  // it hands over its work and ends
  }
}

}  // namespace trireme::launch
