#include "observe/timeline.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <sstream>
#include <tuple>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"

namespace trireme::observe {
namespace {

namespace fs = std::filesystem;
using TimelineJson = nlohmann::json;

constexpr std::uint64_t kMostSpans = 1'000'000;
constexpr std::size_t kMostBuffered = 64u << 10;
constexpr auto kWriteEvery = 100ms;  // what a killed process may lose

std::int64_t nanoseconds(std::chrono::nanoseconds time) { return time.count(); }

/// How far the wall clock is ahead of the monotonic one.
std::int64_t clock_offset() {
  const auto monotonic = Deadline::Clock::now().time_since_epoch();
  return nanoseconds(std::chrono::system_clock::now().time_since_epoch()) - nanoseconds(monotonic);
}

/// Monotonic clocks compare within one boot of one host.
std::string boot_id() {
  try {
    std::string id = read_file("/proc/sys/kernel/random/boot_id");
    id.erase(id.find_last_not_of('\n') + 1);
    return id;
  } catch (const IoError&) {  // not Linux
    return "";
  }
}

AppendFile open_part(const fs::path& folder, std::string role, std::int64_t pid) {
  std::error_code error;  // if the folder is still missing, opening the file says so
  fs::create_directories(folder, error);
  std::ranges::replace(role, ' ', '-');
  const fs::path path = folder / fmt::format("{}-{}.jsonl", role, pid);
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file) fail_errno("cannot open " + path.string());
  return {std::move(file), path, fs::file_size(path)};
}

// ---- Merging.

/// The recording of one process: its first line, and the others as they are.
struct ProcessPart {
  TimelineJson process;
  std::vector<TimelineJson> rows;
};

ProcessPart read_part(const fs::path& path) {
  ProcessPart part;
  std::istringstream text(read_file(path));
  for (std::string line; std::getline(text, line);) {
    TimelineJson row = TimelineJson::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!row.is_object()) continue;  // the machine died while it was written
    if (row.contains("process")) {
      part.process = std::move(row);
    } else {
      part.rows.push_back(std::move(row));
    }
  }
  return part;
}

/// In the order in which the display shows them: workers, then servers, each by number; of one slot the first one
/// first.
std::vector<ProcessPart> read_parts(const fs::path& folder) {
  std::vector<ProcessPart> parts;
  std::error_code error;  // no folder: nobody has recorded anything
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".jsonl") parts.push_back(read_part(entry->path()));
  }
  std::erase_if(parts, [](const ProcessPart& part) { return part.process.is_null(); });
  std::ranges::sort(parts, {}, [](const ProcessPart& part) {
    const std::string role = part.process.value("process", "");
    return std::tuple(role.starts_with("worker") ? 0 : 1, role.size(), role,
                      part.process.value("since", std::int64_t{0}));
  });
  return parts;
}

/// Makes Chrome's trace events of a part, which becomes process `number` of the display.
class Events {
 public:
  Events(TimelineJson& events, int number, std::int64_t offset) : events_(events), number_(number), offset_(offset) {}

  void add_names(const ProcessPart& part) {
    const std::string role = part.process.value("process", "");
    add_name("process_name", 0, fmt::format("{} (pid {})", role, part.process.value("pid", std::int64_t{0})));
    events_.push_back({{"ph", "M"},
                       {"name", "process_sort_index"},
                       {"pid", number_},
                       {"tid", 0},
                       {"args", {{"sort_index", number_}}}});
  }

  void add_row(const TimelineJson& row) {
    if (row.contains("thread")) return add_name("thread_name", row.at("tid"), row.at("thread"));
    if (!row.contains("name")) return;
    TimelineJson event{{"name", row.at("name")},
                       {"pid", number_},
                       {"tid", row.at("tid")},
                       {"ts", microseconds(row.at("begin").get<std::int64_t>() + offset_)},
                       {"args", TimelineJson::object()}};
    if (row.contains("step")) event["args"]["step"] = row.at("step");
    const auto duration = row.at("end").get<std::int64_t>() - row.at("begin").get<std::int64_t>();
    if (!row.contains("id")) {
      event["ph"] = "X";
      event["dur"] = microseconds(duration);
      return events_.push_back(std::move(event));
    }
    event["cat"] = "network";
    event["id"] = fmt::format("{}.{}", number_, row.at("id").get<std::uint64_t>());
    event["ph"] = "b";
    events_.push_back(event);
    event["ph"] = "e";
    event["ts"] = microseconds(row.at("end").get<std::int64_t>() + offset_);
    events_.push_back(std::move(event));
  }

 private:
  static double microseconds(std::int64_t time) { return static_cast<double>(time) / 1000; }

  void add_name(const char* what, const TimelineJson& thread, const TimelineJson& name) {
    events_.push_back({{"ph", "M"}, {"name", what}, {"pid", number_}, {"tid", thread}, {"args", {{"name", name}}}});
  }

  TimelineJson& events_;
  const int number_;
  const std::int64_t offset_;
};

}  // namespace

Timeline::Timeline(const RunFolder& run, const std::string& role, std::int64_t pid)
    : file_(open_part(run.timeline_parts(), role, pid)) {
  const TimelineJson first{{"process", role},
                           {"pid", pid},
                           {"boot", boot_id()},
                           {"offset", clock_offset()},
                           {"since", nanoseconds(std::chrono::system_clock::now().time_since_epoch())}};
  file_.append(as_bytes(first.dump() + "\n"));
}

Timeline::~Timeline() {
  const MutexLock lock(mutex_);
  if (left_out_ > 0) lines_ += fmt::format("{{\"left_out\":{}}}\n", left_out_);
  write();
}

void Timeline::add(const Span& span) {
  const std::int64_t thread = ::gettid();
  const MutexLock lock(mutex_);
  if (spans_ == kMostSpans) {
    ++left_out_;
    return;
  }
  ++spans_;
  name_thread(thread);
  TimelineJson row{{"name", span.name},
                   {"tid", thread},
                   {"begin", nanoseconds(span.begin.time_since_epoch())},
                   {"end", nanoseconds(span.end.time_since_epoch())}};
  if (span.step) row["step"] = *span.step;
  if (span.overlaps) row["id"] = spans_;
  lines_ += row.dump() + "\n";
  if (lines_.size() > kMostBuffered || write_by_.passed()) write();
}

void Timeline::flush() {
  const MutexLock lock(mutex_);
  write();
}

void Timeline::write() {
  file_.append(as_bytes(lines_));
  lines_.clear();
  write_by_ = Deadline::in(kWriteEvery);
}

void Timeline::name_thread(std::int64_t thread) {
  if (!named_.try_emplace(thread, true).second) return;
  std::array<char, 16> name{};
  ::pthread_getname_np(::pthread_self(), name.data(), name.size());
  lines_ += TimelineJson{{"tid", thread}, {"thread", thread == ::getpid() ? "main" : name.data()}}.dump() + "\n";
}

void merge_timeline(const RunFolder& run) {
  const std::vector<ProcessPart> parts = read_parts(run.timeline_parts());
  if (parts.empty()) return;
  TimelineJson events = TimelineJson::array();
  std::map<std::string, std::int64_t>
      offsets;  // by boot: one for all processes, else adjustments of the wall clock show
  std::uint64_t left_out = 0;
  int number = 0;
  for (const ProcessPart& part : parts) {
    const std::int64_t own = part.process.value("offset", std::int64_t{0});
    const std::int64_t offset = offsets.try_emplace(part.process.value("boot", ""), own).first->second;
    Events converter(events, ++number, offset);
    converter.add_names(part);
    for (const TimelineJson& row : part.rows) {
      converter.add_row(row);
      left_out += row.value("left_out", std::uint64_t{0});
    }
  }
  const std::string text = TimelineJson{{"traceEvents", std::move(events)}, {"left_out", left_out}}.dump();
  write_file_atomically(run.timeline(), as_bytes(text));
}

}  // namespace trireme::observe
