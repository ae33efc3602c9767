#include "observe/step_trace.h"

#include <fcntl.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "base/error.h"

namespace trireme::observe {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kKinds{"begin", "commit", "repeat", "enter"};  // as in StepEvent::Kind

struct TraceName {
  std::uint32_t slot = 0;
  std::int64_t pid = 0;
};

std::optional<TraceName> parse_name(const std::string& name) {
  TraceName parsed;
  int end = 0;
  const int fields = std::sscanf(name.c_str(), "steps-%" SCNu32 "-%" SCNd64 ".log%n", &parsed.slot, &parsed.pid, &end);
  if (fields != 2 || end != static_cast<int>(name.size())) return std::nullopt;
  return parsed;
}

FileDescriptor open_trace(const fs::path& path) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file) fail_errno("cannot open " + path.string());
  return file;
}

fs::path trace_path(const fs::path& run, std::uint32_t slot, std::int64_t pid) {
  return run / fmt::format("steps-{}-{}.log", slot, pid);
}

}  // namespace

std::int64_t trace_clock() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::string to_line(const StepEvent& event) {
  std::string line = fmt::format("{} {} {} {} {} {}", kKinds[static_cast<std::size_t>(event.kind)], event.at,
                                 event.step, event.view, event.lanes.first, event.lanes.count);
  if (event.unit) line += fmt::format(" {}", *event.unit);
  return line + "\n";
}

std::optional<StepEvent> parse_line(std::string_view line) {
  StepEvent event;
  char kind[8] = {};
  std::uint64_t unit = 0;
  const int fields =
      std::sscanf(std::string(line).c_str(), "%7s %" SCNd64 " %" SCNu64 " %" SCNu64 " %" SCNu32 " %" SCNu32 " %" SCNu64,
                  kind, &event.at, &event.step, &event.view, &event.lanes.first, &event.lanes.count, &unit);
  const auto known = std::ranges::find(kKinds, std::string_view(kind));
  if (fields < 6 || known == kKinds.end()) return std::nullopt;
  event.kind = static_cast<StepEvent::Kind>(known - kKinds.begin());
  if (fields == 7) event.unit = unit;
  return event;
}

StepTrace::StepTrace(const fs::path& run, std::uint32_t slot, std::int64_t pid)
    : file_(open_trace(trace_path(run, slot, pid)), trace_path(run, slot, pid), 0) {}

void StepTrace::add(StepEvent event) {
  event.at = trace_clock();
  file_.append(as_bytes(to_line(event)));
}

std::vector<StepEvent> TraceFollower::next() {
  look_for_files();
  std::vector<StepEvent> events;
  for (File& file : files_) {
    if (file.complete) continue;
    file.complete = ::kill(static_cast<pid_t>(file.pid), 0) != 0 && errno == ESRCH;  // checked before the last read
    read_lines(file, events);
  }
  std::ranges::stable_sort(events, {}, &StepEvent::at);
  return events;
}

void TraceFollower::look_for_files() {
  std::error_code error;  // no folder yet: no files
  for (fs::directory_iterator entry(run_, error), end; !error && entry != end; entry.increment(error)) {
    const auto name = parse_name(entry->path().filename().string());
    if (!name || std::ranges::find(files_, entry->path(), &File::path) != files_.end()) continue;
    files_.push_back({.path = entry->path(), .slot = name->slot, .pid = name->pid});
  }
}

void TraceFollower::read_lines(File& file, std::vector<StepEvent>& events) {
  std::ifstream in(file.path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(file.read));
  const std::string fresh((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = fresh.find('\n', begin)) != std::string::npos; begin = end + 1) {
    auto event = parse_line(std::string_view(fresh).substr(begin, end - begin));
    if (!event) continue;
    event->slot = file.slot;
    event->pid = file.pid;
    events.push_back(*event);
  }
  file.read += begin;
}

bool is_step_trace(const std::string& name) { return parse_name(name).has_value(); }

}  // namespace trireme::observe
