#include "observe/span_ring.h"

#include <unistd.h>

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"

namespace trireme::observe {
namespace {

/// A system call for each span would cost more than all the rest.
std::int64_t own_thread() {
  thread_local const std::int64_t thread = ::gettid();
  return thread;
}

std::string thread_name(std::int64_t thread) {
  if (thread == ::getpid()) return "main";
  try {
    std::string name = read_file(fmt::format("/proc/self/task/{}/comm", thread));
    name.erase(name.find_last_not_of('\n') + 1);
    return name;
  } catch (const IoError&) {  // it has ended
    return fmt::format("thread {}", thread);
  }
}

std::int64_t nanoseconds(Deadline::Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

RecordedSpan recorded(const Span& span, std::int64_t thread) {
  return {.name = span.name,
          .begin = nanoseconds(span.begin),
          .end = nanoseconds(span.end),
          .thread = thread,
          .step = span.step,
          .overlaps = span.overlaps};
}

}  // namespace

SpanRing::SpanRing(std::shared_ptr<SpanRecorder> next, std::size_t spans) : next_(std::move(next)), entries_(spans) {
  TRIREME_CHECK(spans > 0, "a ring of no spans");
}

void SpanRing::add(const Span& span) {
  if (next_) next_->add(span);
  const std::int64_t thread = own_thread();
  const MutexLock lock(mutex_);
  Entry& entry = entries_[added_++ % entries_.size()];
  entry.thread = thread;
  entry.span = span;  // the name goes into memory that the entry has already
}

Recording SpanRing::last_steps(const WantedSteps& wanted) const {
  Recording all;
  {
    const MutexLock lock(mutex_);
    const std::uint64_t known = std::min<std::uint64_t>(added_, entries_.size());
    for (std::uint64_t i = added_ - known; i < added_; ++i) {
      const Entry& entry = entries_[i % entries_.size()];
      all.spans.push_back(recorded(entry.span, entry.thread));
    }
    if (known < added_) all.left_out = added_ - known;
  }
  std::optional<Step> newest;
  std::optional<Step> oldest;
  for (const RecordedSpan& span : all.spans) {
    if (!span.step) continue;
    newest = std::max(newest.value_or(0), *span.step);
    oldest = std::min(oldest.value_or(*span.step), *span.step);
  }
  if (newest) {
    const Step last = wanted.until < *oldest ? *newest : std::min(wanted.until, *newest);
    const Step first = last - std::min(last, std::max<Step>(1, wanted.count) - 1);
    if (first > *oldest) all.left_out = 0;  // what was overwritten is older
    const auto among = [&](const RecordedSpan& span) { return *span.step >= first && *span.step <= last; };
    std::int64_t since = std::numeric_limits<std::int64_t>::max();
    std::int64_t until = std::numeric_limits<std::int64_t>::min();
    for (const RecordedSpan& span : all.spans) {
      if (!span.step || !among(span)) continue;
      since = std::min(since, span.begin);
      until = std::max(until, span.end);
    }
    if (last == *newest) until = std::numeric_limits<std::int64_t>::max();  // up to now
    std::erase_if(all.spans, [&](const RecordedSpan& span) {
      return span.step ? !among(span) : span.end < since || span.begin > until;
    });
  }
  for (const RecordedSpan& span : all.spans) {
    if (!all.threads.contains(span.thread)) all.threads[span.thread] = thread_name(span.thread);
  }
  return all;
}

}  // namespace trireme::observe
