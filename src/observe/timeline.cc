#include "observe/timeline.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/file.h"

namespace trireme::observe {
namespace {

double microseconds(Timeline::Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

}  // namespace

void Timeline::add(Span span) {
  const MutexLock lock(mutex_);
  if (spans_.size() < kMostSpans) {
    spans_.push_back(std::move(span));
  } else {
    ++left_out_;
  }
}

std::vector<Timeline::Span> Timeline::spans() const {
  const MutexLock lock(mutex_);
  return spans_;
}

void Timeline::write(const std::filesystem::path& path) const {
  const MutexLock lock(mutex_);
  std::vector<std::string> tracks;
  nlohmann::json events = nlohmann::json::array();
  const auto title = [&](const char* what, std::size_t track, const std::string& text) {
    events.push_back({{"ph", "M"}, {"name", what}, {"pid", process_}, {"tid", track}, {"args", {{"name", text}}}});
  };
  title("process_name", 0, name_);
  for (const Span& span : spans_) {
    auto track = std::ranges::find(tracks, span.track);
    if (track == tracks.end()) {
      track = tracks.insert(tracks.end(), span.track);
      title("thread_name", tracks.size() - 1, span.track);
    }
    events.push_back({{"ph", "X"},
                      {"name", span.name},
                      {"pid", process_},
                      {"tid", track - tracks.begin()},
                      {"ts", microseconds(span.begin.time_since_epoch())},
                      {"dur", microseconds(span.end - span.begin)}});
  }
  const nlohmann::json file = {{"traceEvents", std::move(events)}, {"left_out", left_out_}};
  const std::string text = file.dump();
  write_file_atomically(path, as_bytes(text));
}

}  // namespace trireme::observe
