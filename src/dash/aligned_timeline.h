#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cluster/span_report.h"
#include "dash/clock_alignment.h"

namespace trireme::dash {

/// Returns what must have happened before what, as the spans of the processes show: an all-reduce ends for nobody
/// before everybody has begun it; in a synchronous job with servers (`strategy` "ps:bsp") a server updates after all
/// workers have pushed, and no worker's wait is over before that. Pure.
std::vector<MessageOrder> message_orders(const std::vector<cluster::SpanReport>& reports, const std::string& strategy);

/// The last steps of all processes, on one clock, the master's.
class AlignedTimeline {
 public:
  explicit AlignedTimeline(cluster::CollectedSpans collected);

  /// For the page: {"known", "missing", "error_us", "begin", "processes": [{"process", "pid", "host", "error_us",
  /// "left_out", "threads": [{"name", "spans": [[name, begin, duration, step]]}]}]}, in microseconds since "begin",
  /// which is in seconds since 1970. What goes on beside the work of threads is in threads of its own, without
  /// overlaps.
  nlohmann::json to_page() const;

  /// Chrome's trace events, for Perfetto (ui.perfetto.dev).
  nlohmann::json to_trace() const;

  /// The largest error of all processes, in microseconds; of those of which nothing is known: null.
  nlohmann::json error_us() const;

  const cluster::CollectedSpans& collected() const { return collected_; }
  const ClockAlignment& alignment() const { return alignment_; }

 private:
  cluster::CollectedSpans collected_;  // by role and number
  ClockAlignment alignment_;
  std::int64_t begin_ = 0;  // of the first span, on the master's clock
};

}  // namespace trireme::dash
