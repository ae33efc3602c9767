#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace trireme::observe {

/// Records what happened when in one process: spans on named tracks, written as Chrome's trace events, which Perfetto
/// (ui.perfetto.dev) and chrome://tracing show. Times are those of the host's steady clock, so the files of several
/// processes of one host can be opened together. Thread-safe.
class Timeline {
 public:
  using Clock = std::chrono::steady_clock;

  struct Span {
    std::string track;  ///< "compute", "network": a row of the display
    std::string name;
    Clock::time_point begin;
    Clock::time_point end;
  };

  /// `process` is the number and `name` the title of this process in the display. `write` writes the file.
  Timeline(std::uint64_t process, std::string name) : process_(process), name_(std::move(name)) {}

  /// Keeps up to a million spans; counts and drops later ones.
  void add(Span span);

  std::vector<Span> spans() const;

  /// Replaces `path` by the spans added so far. Throws IoError.
  void write(const std::filesystem::path& path) const;

 private:
  static constexpr std::size_t kMostSpans = 1'000'000;

  const std::uint64_t process_;
  const std::string name_;
  mutable Mutex mutex_;
  std::vector<Span> spans_ TRIREME_GUARDED_BY(mutex_);
  std::uint64_t left_out_ TRIREME_GUARDED_BY(mutex_) = 0;
};

/// Adds a span from its construction to its destruction; does nothing without a timeline.
class ScopedSpan {
 public:
  ScopedSpan(Timeline* timeline, const char* track, std::string name)
      : timeline_(timeline), track_(track), name_(std::move(name)), begin_(Timeline::Clock::now()) {}
  ~ScopedSpan() {
    if (timeline_ != nullptr) timeline_->add({track_, std::move(name_), begin_, Timeline::Clock::now()});
  }
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;

 private:
  Timeline* timeline_;
  const char* track_;
  std::string name_;
  Timeline::Clock::time_point begin_;
};

}  // namespace trireme::observe
