#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trireme/types.h"

#include "base/recorded_span.h"
#include "cluster/assignment.h"
#include "cluster/clock_estimate.h"

namespace trireme::cluster {

/// kRecord: all members are to tell what their last steps were like.
struct RecordRequest {
  Step steps = 5;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(RecordRequest, steps)
};

/// Under which number the answers are collected. A later request replaces it.
struct RecordReply {
  std::uint64_t request = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(RecordReply, request)
};

/// kSpans: what one member has recorded.
struct SpanReport {
  MemberId member = 0;
  std::uint64_t request = 0;
  std::string process = {};  ///< "worker 1"; the master fills it in
  std::int64_t pid = 0;      ///< likewise
  std::string host = {};     ///< likewise
  ClockBounds clock = {};
  Recording recording = {};
};

/// kRecorded: what one member has answered to a request.
struct RecordedQuery {
  std::uint64_t request = 0;
  std::uint32_t index = 0;  ///< which of the answers
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(RecordedQuery, request, index)
};

struct RecordedReply {
  bool known = false;                     ///< false: it was replaced by a later one, or made to another master
  std::vector<std::string> missing = {};  ///< members that have not answered yet
  std::uint32_t answers = 0;              ///< how many there are by now
  SpanReport report = {};                 ///< the one that was asked for, if there is one
  std::int64_t wall_ahead = 0;  ///< nanoseconds by which the wall clock is ahead of the master's monotonic one
  std::string strategy = {};    ///< of the job: what its steps wait for
};

/// All that was answered to a request.
struct CollectedSpans {
  bool known = false;
  std::vector<std::string> missing = {};
  std::vector<SpanReport> reports = {};
  std::int64_t wall_ahead = 0;
  std::string strategy = {};
};

/// Asks for the answers one by one: all together they may be too large for a message.
CollectedSpans collect_spans(std::uint64_t request, const std::function<RecordedReply(const RecordedQuery&)>& ask);

/// A span is [name, begin, end, thread, step or null, overlaps]: thousands of them travel at once.
void to_json(nlohmann::json& to, const SpanReport& report);
void from_json(const nlohmann::json& from, SpanReport& report);
void to_json(nlohmann::json& to, const RecordedReply& reply);
void from_json(const nlohmann::json& from, RecordedReply& reply);

}  // namespace trireme::cluster
