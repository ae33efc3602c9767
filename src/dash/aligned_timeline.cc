#include "dash/aligned_timeline.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

namespace trireme::dash {
namespace {

using cluster::SpanReport;
using nlohmann::json;

constexpr std::int64_t kUnknownError = std::int64_t{1} << 60;

double microseconds(std::int64_t time) { return static_cast<double>(time) / 1000; }

json error_of(std::int64_t error) { return error >= kUnknownError ? json() : json(microseconds(error)); }

/// The first begin and the last end of the spans of one name in one step, and how many there are.
struct Extent {
  std::int64_t begin = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = std::numeric_limits<std::int64_t>::min();
  std::uint32_t count = 0;
};
using Extents = std::map<std::pair<std::string, Step>, Extent>;

/// Of the first step a part may be missing: it does not count.
Extents extents_of(const SpanReport& report) {
  std::optional<Step> oldest;
  for (const RecordedSpan& span : report.recording.spans) {
    if (span.step) oldest = std::min(oldest.value_or(*span.step), *span.step);
  }
  Extents all;
  for (const RecordedSpan& span : report.recording.spans) {
    if (!span.step || *span.step == *oldest) continue;
    Extent& extent = all[{span.name, *span.step}];
    extent.begin = std::min(extent.begin, span.begin);
    extent.end = std::max(extent.end, span.end);
    ++extent.count;
  }
  return all;
}

bool is_worker(const SpanReport& report) { return report.process.starts_with("worker"); }

/// Threads, and as many rows as it takes to show what overlaps.
using Rows = std::vector<std::pair<std::string, std::vector<const RecordedSpan*>>>;

Rows rows_of(const Recording& recording) {
  Rows rows;
  std::map<std::int64_t, std::size_t> of_thread;
  for (const RecordedSpan& span : recording.spans) {
    if (span.overlaps) continue;
    const auto [place, fresh] = of_thread.try_emplace(span.thread, rows.size());
    if (fresh) rows.emplace_back(recording.threads.at(span.thread), std::vector<const RecordedSpan*>{});
    rows[place->second].second.push_back(&span);
  }
  std::vector<const RecordedSpan*> beside;
  for (const RecordedSpan& span : recording.spans) {
    if (span.overlaps) beside.push_back(&span);
  }
  std::ranges::sort(beside, {}, &RecordedSpan::begin);
  const std::size_t threads = rows.size();
  for (const RecordedSpan* span : beside) {
    const auto free = std::find_if(rows.begin() + static_cast<std::ptrdiff_t>(threads), rows.end(),
                                   [&](const auto& row) { return row.second.back()->end <= span->begin; });
    if (free == rows.end()) {
      rows.emplace_back("network", std::vector{span});
    } else {
      free->second.push_back(span);
    }
  }
  return rows;
}

}  // namespace

std::vector<MessageOrder> message_orders(const std::vector<SpanReport>& reports, const std::string& strategy) {
  std::vector<Extents> extents;
  for (const SpanReport& report : reports) extents.push_back(extents_of(report));
  std::vector<MessageOrder> orders;
  /// What `first` began as `one` was needed for `other` of `second`, in the same step.
  const auto needs = [&](std::size_t first, const std::string& one, std::size_t second, const std::string& other,
                         auto when) {
    for (const auto& [key, extent] : extents[second]) {
      if (key.first != other) continue;
      const auto found = extents[first].find({one, key.second});
      if (found == extents[first].end()) continue;
      orders.push_back({.first = first, .before = found->second.begin, .second = second, .after = when(extent)});
    }
  };
  const auto begin = [](const Extent& extent) { return extent.begin; };
  const auto end = [](const Extent& extent) { return extent.end; };
  for (std::size_t a = 0; a < reports.size(); ++a) {
    for (std::size_t b = 0; b < reports.size(); ++b) {
      if (a == b) continue;
      if (is_worker(reports[a]) && is_worker(reports[b])) {
        for (const auto& [key, extent] : extents[a]) {
          if (!key.first.starts_with("all-reduce ")) continue;
          const auto other = extents[b].find(key);
          if (other == extents[b].end() || extent.count != 1 || other->second.count != 1) continue;
          orders.push_back({.first = a, .before = extent.begin, .second = b, .after = other->second.end});
        }
      } else if (strategy == "ps:bsp" && is_worker(reports[a])) {
        needs(a, "push", b, "update", begin);
        needs(b, "update", a, "wait", end);
      }
    }
  }
  return orders;
}

AlignedTimeline::AlignedTimeline(cluster::CollectedSpans collected) : collected_(std::move(collected)) {
  std::ranges::sort(collected_.reports, {}, [](const SpanReport& report) {
    return std::tuple(is_worker(report) ? 0 : 1, report.process.size(), report.process);
  });
  std::vector<cluster::ClockBounds> bounds;
  for (const SpanReport& report : collected_.reports) bounds.push_back(report.clock);
  alignment_ = align_clocks(bounds, message_orders(collected_.reports, collected_.strategy));
  alignment_.errors.resize(bounds.size(), kUnknownError);
  std::optional<std::int64_t> first;
  for (std::size_t i = 0; i < collected_.reports.size(); ++i) {
    for (const RecordedSpan& span : collected_.reports[i].recording.spans) {
      const std::int64_t begin = span.begin + alignment_.offsets[i];
      first = std::min(first.value_or(begin), begin);
    }
  }
  begin_ = first.value_or(0);
}

json AlignedTimeline::error_us() const {
  const auto worst = std::ranges::max_element(alignment_.errors);
  return worst == alignment_.errors.end() ? json(0.0) : error_of(*worst);
}

json AlignedTimeline::to_page() const {
  json processes = json::array();
  for (std::size_t i = 0; i < collected_.reports.size(); ++i) {
    const SpanReport& report = collected_.reports[i];
    json threads = json::array();
    for (const auto& [name, spans] : rows_of(report.recording)) {
      json shown = json::array();
      for (const RecordedSpan* span : spans) {
        shown.push_back({span->name, microseconds(span->begin + alignment_.offsets[i] - begin_),
                         microseconds(span->end - span->begin), span->step ? json(*span->step) : json()});
      }
      threads.push_back({{"name", name}, {"spans", std::move(shown)}});
    }
    processes.push_back({{"process", report.process},
                         {"pid", report.pid},
                         {"host", report.host},
                         {"error_us", error_of(alignment_.errors[i])},
                         {"left_out", report.recording.left_out},
                         {"threads", std::move(threads)}});
  }
  return {{"known", collected_.known},
          {"missing", collected_.missing},
          {"error_us", error_us()},
          {"contradiction", alignment_.contradiction},
          {"begin", static_cast<double>(begin_ + collected_.wall_ahead) * 1e-9},
          {"processes", std::move(processes)}};
}

json AlignedTimeline::to_trace() const {
  json events = json::array();
  for (std::size_t i = 0; i < collected_.reports.size(); ++i) {
    const SpanReport& report = collected_.reports[i];
    const auto number = static_cast<std::int64_t>(i + 1);
    const auto name = [&](const char* what, std::int64_t thread, const std::string& text) {
      events.push_back({{"ph", "M"}, {"name", what}, {"pid", number}, {"tid", thread}, {"args", {{"name", text}}}});
    };
    name("process_name", 0, fmt::format("{} (pid {}, {})", report.process, report.pid, report.host));
    std::int64_t row = 0;
    for (const auto& [thread, spans] : rows_of(report.recording)) {
      name("thread_name", ++row, thread);
      for (const RecordedSpan* span : spans) {
        json event{{"ph", "X"},
                   {"name", span->name},
                   {"pid", number},
                   {"tid", row},
                   {"ts", microseconds(span->begin + alignment_.offsets[i] + collected_.wall_ahead)},
                   {"dur", microseconds(span->end - span->begin)}};
        if (span->step) event["args"]["step"] = *span->step;
        events.push_back(std::move(event));
      }
    }
  }
  return {{"traceEvents", std::move(events)}, {"otherData", {{"clock_error_us", error_us()}}}};
}

}  // namespace trireme::dash
