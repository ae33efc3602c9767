#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/spans.h"

namespace trireme::observe {

/// Adds up where the time of one thread goes, by phase (kPhaseNames), and knows what it is doing at the moment. Spans
/// lie inside each other (gradients are pushed during backward): each counts without those inside it. Passes all spans
/// on to a timeline, where there is one. Thread-safe; spans of other threads are only passed on.
class PhaseClock final : public SpanRecorder {
 public:
  /// What the thread is doing.
  struct Current {
    const char* what = nullptr;  ///< null: between two spans
    Step step = 0;
    double for_s = 0;
  };

  /// Watches the calling thread. `next` may be null.
  explicit PhaseClock(std::shared_ptr<SpanRecorder> next);

  void begin(const char* name, std::optional<Step> step, Deadline::Clock::time_point now) override;
  void add(const Span& span) override;

  /// Returns the seconds in each phase since the last call.
  std::vector<double> take();

  Current current(Deadline::Clock::time_point now = Deadline::Clock::now()) const;

 private:
  struct Open {
    const char* name = nullptr;
    Step step = 0;
    Deadline::Clock::time_point since;
    double inside_s = 0;  // spans that lie in it
  };

  const std::shared_ptr<SpanRecorder> next_;
  const std::thread::id thread_ = std::this_thread::get_id();

  mutable Mutex mutex_;  // taken by the thread a dozen times in a step, by the heartbeat ten times a second
  std::vector<Open> open_ TRIREME_GUARDED_BY(mutex_);
  std::vector<double> phases_ TRIREME_GUARDED_BY(mutex_);
};

/// Returns the index in kPhaseNames of the phase to which spans of this name belong; nullopt for those that hold others
/// ("step") and do not count.
std::optional<std::size_t> phase_of(std::string_view name);

}  // namespace trireme::observe
