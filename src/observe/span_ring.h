#pragma once

#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/recorded_span.h"
#include "base/spans.h"

namespace trireme::observe {

/// Remembers the latest spans of a process, so that somebody who asks what its last steps were like gets an answer at
/// once, also from one that hangs. Always on: a span costs a copy into memory that is there already. Passes all spans
/// on to a timeline, where there is one. Thread-safe.
class SpanRing final : public SpanRecorder {
 public:
  static constexpr std::size_t kSpans = 2048;  ///< some 200 steps of a small network, a few of a large one

  /// `next` may be null.
  explicit SpanRing(std::shared_ptr<SpanRecorder> next = nullptr, std::size_t spans = kSpans);

  void add(const Span& span) override;

  /// Returns the spans of the newest steps of `wanted`, and those without a step meanwhile; of the newest there are if
  /// all of `wanted` have been overwritten. `left_out` is not 0 if the first of these steps has been, in part.
  Recording last_steps(const WantedSteps& wanted) const;

 private:
  struct Entry {
    std::int64_t thread = 0;
    Span span;
  };

  const std::shared_ptr<SpanRecorder> next_;
  mutable Mutex mutex_;
  std::vector<Entry> entries_ TRIREME_GUARDED_BY(mutex_);
  std::uint64_t added_ TRIREME_GUARDED_BY(mutex_) = 0;
};

}  // namespace trireme::observe
