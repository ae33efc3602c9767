#include "master/span_collector.h"

#include <algorithm>

namespace trireme::master {
namespace {

constexpr auto kSameQuestion = 1s;

/// Later than that of any master before this one.
std::uint64_t first_request() {
  return static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch() / 1ms);
}

}  // namespace

std::uint64_t SpanCollector::ask(WantedSteps steps, std::map<cluster::MemberId, std::string> members, Time now) {
  if (request_ != 0 && steps.count == steps_.count && !waiting_.empty() && now - asked_ < kSameQuestion)
    return request_;
  request_ = request_ == 0 ? first_request() : request_ + 1;
  steps_ = steps;
  asked_ = now;
  waiting_ = std::move(members);
  reports_.clear();
  return request_;
}

std::optional<WantedSteps> SpanCollector::wanted(cluster::MemberId member) const {
  if (!waiting_.contains(member)) return std::nullopt;
  return steps_;
}

void SpanCollector::add(cluster::SpanReport report) {
  if (report.request != request_ || waiting_.erase(report.member) == 0) return;
  if (steps_.until == WantedSteps::kNewest) {
    for (const RecordedSpan& span : report.recording.spans) {
      if (!span.step) continue;
      steps_.until = steps_.until == WantedSteps::kNewest ? *span.step : std::max(steps_.until, *span.step);
    }
  }
  reports_.push_back(std::move(report));
}

cluster::RecordedReply SpanCollector::reply(const cluster::RecordedQuery& query) const {
  cluster::RecordedReply reply;
  if (request_ == 0 || query.request != request_) return reply;
  reply.known = true;
  for (const auto& [member, name] : waiting_) reply.missing.push_back(name);
  reply.answers = static_cast<std::uint32_t>(reports_.size());
  if (query.index < reports_.size()) reply.report = reports_[query.index];
  return reply;
}

}  // namespace trireme::master
