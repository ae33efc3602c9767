#include "cluster/span_report.h"

namespace trireme::cluster {
namespace {

using nlohmann::json;

json as_array(const RecordedSpan& span) {
  return json::array(
      {span.name, span.begin, span.end, span.thread, span.step ? json(*span.step) : json(), span.overlaps});
}

RecordedSpan as_span(const json& from) {
  RecordedSpan span{.name = from.at(0).get<std::string>(),
                    .begin = from.at(1).get<std::int64_t>(),
                    .end = from.at(2).get<std::int64_t>(),
                    .thread = from.at(3).get<std::int64_t>(),
                    .overlaps = from.at(5).get<bool>()};
  if (!from.at(4).is_null()) span.step = from.at(4).get<Step>();
  return span;
}

}  // namespace

CollectedSpans collect_spans(std::uint64_t request, const std::function<RecordedReply(const RecordedQuery&)>& ask) {
  CollectedSpans all;
  for (std::uint32_t index = 0;; ++index) {
    RecordedReply reply = ask({.request = request, .index = index});
    all.known = reply.known;
    all.missing = std::move(reply.missing);
    all.wall_ahead = reply.wall_ahead;
    all.strategy = std::move(reply.strategy);
    if (index >= reply.answers) return all;
    all.reports.push_back(std::move(reply.report));
  }
}

void to_json(json& to, const SpanReport& report) {
  json spans = json::array();
  for (const RecordedSpan& span : report.recording.spans) spans.push_back(as_array(span));
  json threads = json::array();
  for (const auto& [thread, name] : report.recording.threads) threads.push_back(json::array({thread, name}));
  to = {{"member", report.member},   {"request", report.request}, {"process", report.process},
        {"pid", report.pid},         {"host", report.host},       {"clock", report.clock},
        {"spans", std::move(spans)}, {"threads", threads},        {"left_out", report.recording.left_out}};
}

void from_json(const json& from, SpanReport& report) {
  from.at("member").get_to(report.member);
  from.at("request").get_to(report.request);
  from.at("process").get_to(report.process);
  from.at("pid").get_to(report.pid);
  from.at("host").get_to(report.host);
  from.at("clock").get_to(report.clock);
  from.at("left_out").get_to(report.recording.left_out);
  report.recording.spans.clear();
  for (const json& span : from.at("spans")) report.recording.spans.push_back(as_span(span));
  report.recording.threads.clear();
  for (const json& thread : from.at("threads")) {
    report.recording.threads[thread.at(0).get<std::int64_t>()] = thread.at(1).get<std::string>();
  }
}

void to_json(json& to, const RecordedReply& reply) {
  to = {{"known", reply.known},   {"missing", reply.missing},       {"answers", reply.answers},
        {"report", reply.report}, {"wall_ahead", reply.wall_ahead}, {"strategy", reply.strategy}};
}

void from_json(const json& from, RecordedReply& reply) {
  from.at("known").get_to(reply.known);
  from.at("missing").get_to(reply.missing);
  from.at("answers").get_to(reply.answers);
  from.at("report").get_to(reply.report);
  from.at("wall_ahead").get_to(reply.wall_ahead);
  from.at("strategy").get_to(reply.strategy);
}

}  // namespace trireme::cluster
