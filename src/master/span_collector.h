#pragma once

#include <map>
#include <optional>
#include <string>

#include "trireme/deadline.h"

#include "cluster/span_report.h"

namespace trireme::master {

/// Collects what the members recorded of their last steps, for somebody who asked. A value; the master's lock guards
/// it.
class SpanCollector {
 public:
  using Time = Deadline::Clock::time_point;

  /// Asks `members`, by name, about `steps`, and returns the number of the request. The same one if a request for as
  /// many steps is not answered by all yet and is not older than a second; else the request before is forgotten.
  std::uint64_t ask(WantedSteps steps, std::map<cluster::MemberId, std::string> members, Time now);

  /// Returns which steps to ask a member about with its next heartbeat; nullopt if it has answered, or need not. Where
  /// nobody knew the newest step that all have made (`until` is kNewest), it is that of the first that answers.
  std::optional<WantedSteps> wanted(cluster::MemberId member) const;

  /// Returns the number of the latest request; 0 = none yet.
  std::uint64_t request() const { return request_; }

  /// Adds an answer; ignores one that nobody waits for.
  void add(cluster::SpanReport report);

  /// `known` is false if that is not the last request.
  cluster::RecordedReply reply(const cluster::RecordedQuery& query) const;

 private:
  std::uint64_t request_ = 0;  // 0 = none yet
  WantedSteps steps_{.count = 0};
  Time asked_{};
  std::map<cluster::MemberId, std::string> waiting_;  // have not answered
  std::vector<cluster::SpanReport> reports_;
};

}  // namespace trireme::master
