#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "trireme/deadline.h"

#include "cluster/protocol.h"

namespace trireme::dash {

/// Something that a person who is not looking wants to know.
struct RunEvent {
  std::string kind;  ///< "stall", "nan", "spike", "death", "recovery", "finish"
  std::string text;  ///< for people
  Step step = 0;

  bool operator==(const RunEvent&) const = default;
};

/// Finds these events in what the master says. A value: the caller passes the time.
class EventDetector {
 public:
  using Time = Deadline::Clock::time_point;

  struct Options {
    std::chrono::milliseconds stall_after{60000};  ///< without a step
    double spike = 3;                              ///< times the median loss of the last minutes
    std::size_t spike_after = 20;                  ///< losses that must be known before
  };

  EventDetector() = default;
  explicit EventDetector(Options options) : options_(options) {}

  /// Returns what is new. A stall or a spike is told once, until it is over.
  std::vector<RunEvent> look(const cluster::JobStatus& status, Time now);

 private:
  void look_for_losses(const cluster::JobStatus& status, std::vector<RunEvent>& events);
  void look_for_stall(const cluster::JobStatus& status, Time now, std::vector<RunEvent>& events);
  void look_for_spike(const cluster::JobStatus& status, Time now, std::vector<RunEvent>& events);

  Options options_;
  std::map<std::string, std::uint64_t> failures_;
  std::uint64_t recoveries_ = 0;
  double recovered_s_ = 0;
  Step step_ = 0;
  Time step_at_{};
  bool stalled_ = false;
  bool spiked_ = false;
  bool not_finite_ = false;
  std::deque<double> losses_;  // one a second
  Time loss_at_{};
};

struct EventHookOptions {
  std::string target;  ///< a command, or an address that begins with http:// or https://; empty = nobody is told
  std::string run;     ///< its folder
  std::chrono::milliseconds command_within{30000};
  std::chrono::milliseconds post_within{5000};
};

/// Tells a command or a web server of events: a command gets them as JSON on standard input and as TRIREME_EVENT,
/// TRIREME_EVENT_TEXT, TRIREME_EVENT_STEP and TRIREME_RUN; a server gets the JSON by POST. One thread, which runs only
/// while there is something to tell. A target that fails or takes too long is logged, and hurts nobody.
class EventHooks {
 public:
  /// Throws InvalidArgument if an address cannot be used.
  explicit EventHooks(EventHookOptions options);

  /// Waits for what is not told yet, at most as long as one event may take.
  ~EventHooks();

  /// Tells what is new in `status`.
  void watch(const cluster::JobStatus& status, EventDetector::Time now);

  /// Tells how the run has ended.
  void tell_end(int status, const std::string& failure, Step step);

  /// Returns at once. More than 100 that are not told yet: the oldest is dropped.
  void tell(const RunEvent& event);

  /// Returns how many events were told so far, and how many of these in vain.
  std::pair<std::uint64_t, std::uint64_t> told() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::dash
