#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "trireme/deadline.h"
#include "trireme/types.h"

namespace trireme {

/// Where the time of a worker goes.
inline constexpr std::array<const char*, 7> kPhaseNames = {"data",    "forward", "backward", "wait",
                                                           "network", "update",  "other"};

/// Something that took time.
struct Span {
  std::string name;
  Deadline::Clock::time_point begin;
  Deadline::Clock::time_point end;
  std::optional<Step> step = {};  ///< that it belongs to
  bool overlaps = false;          ///< goes on beside others: not the work of one thread from its begin to its end
};

/// Where spans go: observe::Timeline, observe::PhaseClock. Whoever records them has a pointer, null where nobody wants
/// them.
class SpanRecorder {
 public:
  virtual ~SpanRecorder() = default;

  /// The calling thread begins a span of this name, a literal, which `add` will tell of. Thread-safe; does not throw.
  virtual void begin(const char* /*name*/, std::optional<Step> /*step*/, Deadline::Clock::time_point /*now*/) {}

  /// Of the calling thread, unless `span.overlaps`. Thread-safe; does not throw.
  virtual void add(const Span& span) = 0;
};

/// A span from its construction to its destruction. Costs a comparison if `recorder` is null.
class ScopedSpan {
 public:
  ScopedSpan(SpanRecorder* recorder, const char* name, std::optional<Step> step = {})
      : recorder_(recorder), name_(name), step_(step) {
    if (recorder_ == nullptr) return;
    begin_ = Deadline::Clock::now();
    recorder_->begin(name, step, begin_);
  }
  ~ScopedSpan() {
    if (recorder_ != nullptr) {
      recorder_->add({.name = name_, .begin = begin_, .end = Deadline::Clock::now(), .step = step_});
    }
  }
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;

 private:
  SpanRecorder* const recorder_;
  const char* const name_;
  const std::optional<Step> step_;
  Deadline::Clock::time_point begin_{};
};

}  // namespace trireme
