#include "observe/phase_clock.h"

#include <utility>

namespace trireme::observe {
namespace {

enum PhaseIndex : std::size_t { kData, kForward, kBackward, kWait, kNetwork, kUpdate, kOther };

}  // namespace

std::optional<std::size_t> phase_of(std::string_view name) {
  if (name == "step") return std::nullopt;
  if (name == "data") return kData;
  if (name == "forward") return kForward;
  if (name == "backward") return kBackward;
  if (name == "wait") return kWait;
  if (name == "push" || name == "pull" || name == "ask" || name == "average") return kNetwork;
  if (name == "update") return kUpdate;
  return kOther;
}

PhaseClock::PhaseClock(std::shared_ptr<SpanRecorder> next) : next_(std::move(next)), phases_(kPhaseNames.size(), 0.0) {}

void PhaseClock::begin(const char* name, std::optional<Step> step, Deadline::Clock::time_point now) {
  if (std::this_thread::get_id() != thread_) return;
  const MutexLock lock(mutex_);
  open_.push_back({.name = name, .step = step.value_or(0), .since = now});
}

void PhaseClock::add(const Span& span) {
  if (next_) next_->add(span);
  if (span.overlaps || std::this_thread::get_id() != thread_) return;
  const double took = seconds(span.end - span.begin);
  const MutexLock lock(mutex_);
  double inside = 0;
  // A span that was not announced ("data", "step") closes nothing.
  if (!open_.empty() && open_.back().since == span.begin && span.name == open_.back().name) {
    inside = open_.back().inside_s;
    open_.pop_back();
  }
  const auto phase = phase_of(span.name);
  if (!phase) return;
  phases_[*phase] += took - inside;
  if (!open_.empty()) open_.back().inside_s += took;
}

std::vector<double> PhaseClock::take() {
  const MutexLock lock(mutex_);
  return std::exchange(phases_, std::vector<double>(kPhaseNames.size(), 0.0));
}

PhaseClock::Current PhaseClock::current(Deadline::Clock::time_point now) const {
  const MutexLock lock(mutex_);
  if (open_.empty()) return {};
  const Open& open = open_.back();
  return {.what = open.name, .step = open.step, .for_s = seconds(now - open.since)};
}

}  // namespace trireme::observe
