#include "dash/run_list.h"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <type_traits>

#include <fmt/format.h>

#include "trireme/types.h"

#include "base/error.h"
#include "base/file.h"
#include "observe/run_folder.h"

namespace trireme::dash {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::uint64_t kTail = 64UL * 1024;

json parse_or_null(const std::string& text) {
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? json() : value;
}

/// The value of that name; `otherwise` if there is none, or it is of another type than that.
template <class Value>
Value value_or(const json& object, const char* name, Value otherwise) {
  if (!object.is_object() || !object.contains(name)) return otherwise;
  const json& value = object.at(name);
  const bool fits = std::is_same_v<Value, std::string> ? value.is_string()
                    : std::is_same_v<Value, bool>      ? value.is_boolean()
                                                       : value.is_number();
  return fits ? value.get<Value>() : otherwise;
}

std::string read_or_empty(const fs::path& path) {
  try {
    return read_file(path);
  } catch (const Error&) {
    return "";
  }
}

/// Returns the last `kTail` bytes.
std::string read_tail(const fs::path& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return "";
  const auto size = static_cast<std::uint64_t>(in.tellg());
  const std::uint64_t begin = size - std::min(size, kTail);
  in.seekg(static_cast<std::streamoff>(begin));
  std::string text(size - begin, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  return text;
}

/// Adds the last row of each kind.
void add_last_rows(const fs::path& metrics, json& summary) {
  const std::string text = read_tail(metrics);
  json train;
  json test;
  for (std::size_t end = text.rfind('\n');
       end != std::string::npos && end > 0 && (train.is_null() || test.is_null());) {
    const std::size_t begin = text.rfind('\n', end - 1);
    const std::size_t from = begin == std::string::npos ? 0 : begin + 1;
    const std::string line = text.substr(from, end - from);
    end = begin;
    // Most rows are of training, and one of those is enough: the others are not even parsed.
    if (!train.is_null() && line.find("\"kind\":\"train\"") != std::string::npos) continue;
    const json row = parse_or_null(line);
    if (!row.is_object()) continue;
    json& place = value_or<std::string>(row, "kind", "train") == "train" ? train : test;
    if (place.is_null()) place = row;
  }
  summary["train"] = train;
  summary["test"] = test;
  if (train.is_object()) {
    summary["step"] = value_or(train, "step", Step{0});
    summary["seconds"] = value_or(train, "seconds", 0.0);
  }
}

/// When a folder's name says when its run began: 20260301-091502-lenet.
double started_of(const fs::path& run) {
  const std::string name = run.filename().string();
  std::tm time{};
  if (name.size() > 15 && ::strptime(name.substr(0, 15).c_str(), "%Y%m%d-%H%M%S", &time) != nullptr) {
    return static_cast<double>(::timegm(&time));
  }
  struct stat status {};
  for (const char* file : {"samples.json", "program.json", "config.toml"}) {
    if (::stat((run / file).c_str(), &status) == 0) return static_cast<double>(status.st_mtime);
  }
  return 0;
}

void add_ending(const observe::RunFolder& folder, json& summary) {
  const json outcome = parse_or_null(read_or_empty(folder.outcome()));
  if (folder.held()) {
    summary["state"] = "running";
    return;
  }
  json result = outcome.is_object() ? outcome.value("result", json()) : json();
  if (result.is_null()) result = parse_or_null(read_or_empty(folder.result()));
  summary["result"] = result;
  if (!outcome.is_object()) {
    summary["state"] = result.is_object() ? "finished" : "interrupted";
    return;
  }
  const auto failure = value_or<std::string>(outcome, "failure", "");
  summary["failure"] = failure;
  const bool stopped =
      value_or(outcome, "stopped", false) || (result.is_object() && result.contains("stopped_because"));
  summary["state"] = value_or(outcome, "status", 0) != 0 && !failure.empty() ? "failed"
                     : stopped                                               ? "stopped"
                                                                             : "finished";
}

json read_notes(const fs::path& file) {
  json notes = json::array();
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (json note = parse_or_null(line); note.is_object()) notes.push_back(std::move(note));
  }
  return notes;
}

/// Changes when a file of the run does.
std::string stamp_of(const observe::RunFolder& folder) {
  std::string stamp = folder.held() ? "held" : "";
  for (const fs::path& file : {folder.metrics(), folder.outcome(), folder.config(), folder.notes(), folder.result()}) {
    struct stat status {};
    if (::stat(file.c_str(), &status) != 0) continue;
    stamp += fmt::format(" {}.{}:{}", status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_size);
  }
  return stamp;
}

}  // namespace

std::map<std::string, std::string> read_flags(const fs::path& config) {
  std::map<std::string, std::string> flags;
  std::ifstream in(config);
  for (std::string line; std::getline(in, line);) {
    const auto equals = line.find('=');
    if (line.empty() || line[0] == '#' || line[0] == '[' || equals == line.npos) continue;
    const auto trim = [](std::string text) {
      text.erase(0, text.find_first_not_of(" \t"));
      text.erase(text.find_last_not_of(" \t\r") + 1);
      if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
      return text;
    };
    flags[trim(line.substr(0, equals))] = trim(line.substr(equals + 1));
  }
  return flags;
}

bool is_run(const fs::path& folder) {
  std::error_code none;
  for (const char* file : {"config.toml", "program.json", "metrics.jsonl", "result.json"}) {
    if (fs::exists(folder / file, none)) return true;
  }
  return false;
}

json summarize_run(const fs::path& run) {
  const auto folder = observe::RunFolder::open(run);
  json summary{{"name", run.filename().string()},
               {"step", 0},
               {"seconds", 0.0},
               {"failure", ""},
               {"flags", read_flags(folder.config())},
               {"result", json()},
               {"started", started_of(run)}};
  add_last_rows(folder.metrics(), summary);
  add_ending(folder, summary);
  summary["notes"] = read_notes(folder.notes());
  return summary;
}

RunList::RunList(fs::path root) : root_(fs::absolute(root).lexically_normal()) {
  if (!root_.has_filename()) root_ = root_.parent_path();
  std::error_code none;
  if (!fs::is_directory(root_, none)) fail<InvalidArgument>("there is no folder {}", root_.string());
  single_ = is_run(root_);
}

json RunList::summaries() {
  std::vector<fs::path> runs;
  if (single_) {
    runs.push_back(root_);
  } else {
    std::error_code none;
    for (fs::directory_iterator entry(root_, none), end; !none && entry != end; entry.increment(none)) {
      if (entry->is_directory(none) && is_run(entry->path())) runs.push_back(entry->path());
    }
  }
  std::map<std::string, Known> fresh;
  std::vector<std::pair<double, const json*>> order;
  for (const fs::path& run : runs) {
    const std::string name = run.filename().string();
    std::string stamp = stamp_of(observe::RunFolder::open(run));
    const auto known = known_.find(name);
    Known& entry = fresh[name];
    entry = known != known_.end() && known->second.stamp == stamp ? std::move(known->second)
                                                                  : Known{std::move(stamp), summarize_run(run)};
  }
  known_ = std::move(fresh);
  for (const auto& [name, entry] : known_) order.emplace_back(entry.summary.value("started", 0.0), &entry.summary);
  std::ranges::stable_sort(order, std::greater<>{}, &std::pair<double, const json*>::first);
  json all = json::array();
  for (const auto& [started, summary] : order) all.push_back(*summary);
  return all;
}

fs::path RunList::folder(const std::string& name) const {
  if (single_) return root_;
  const bool plain =
      !name.empty() && name != "." && name != ".." && name.find('/') == name.npos && name.find('\0') == name.npos;
  if (!plain || !is_run(root_ / name)) fail<InvalidArgument>("there is no run '{}' here", name);
  return root_ / name;
}

}  // namespace trireme::dash
