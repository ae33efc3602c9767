#include "chaos/job_processes.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

namespace trireme::chaos {
namespace {

namespace fs = std::filesystem;

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\0'), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return words;
}

std::string_view variable(const std::vector<std::string_view>& environment, std::string_view name) {
  for (const std::string_view entry : environment) {
    if (entry.starts_with(name) && entry.size() > name.size() && entry[name.size()] == '=') {
      return entry.substr(name.size() + 1);
    }
  }
  return {};
}

/// Parses "pid (name) state …"; a zombie has ended.
bool has_ended(pid_t pid) {
  const std::string stat = content_of(fmt::format("/proc/{}/stat", pid));
  const std::size_t name_end = stat.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= stat.size() || stat[name_end + 2] == 'Z';
}

std::uint64_t field(const std::string& status, const std::string& name) {
  const std::size_t at = status.find("\n" + name + ":");
  return at == std::string::npos ? 0 : std::strtoull(status.c_str() + at + name.size() + 2, nullptr, 10);
}

}  // namespace

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::optional<JobProcess> identify(pid_t pid, std::string_view command_line, std::string_view environment) {
  const auto words = split_words(command_line);
  if (words.size() >= 2 && words[0].ends_with("trireme") && words[1] == "master") {
    return JobProcess{.pid = pid, .role = FaultRole::kMaster};
  }
  const auto variables = split_words(environment);
  const std::string_view role = variable(variables, "TRIREME_ROLE");
  const std::string_view rank = variable(variables, "TRIREME_RANK");
  if ((role != "worker" && role != "server") || rank.empty()) return std::nullopt;
  JobProcess process{.pid = pid, .role = role == "worker" ? FaultRole::kWorker : FaultRole::kServer};
  std::from_chars(rank.data(), rank.data() + rank.size(), process.slot);
  return process;
}

std::vector<JobProcess> job_processes(pid_t launcher) {
  std::vector<JobProcess> all;
  std::error_code gone;
  for (const auto& task : fs::directory_iterator(fmt::format("/proc/{}/task", launcher), gone)) {
    std::istringstream children(content_of(task.path() / "children"));
    for (pid_t child = 0; children >> child;) {
      const auto process = identify(child, content_of(fmt::format("/proc/{}/cmdline", child)),
                                    content_of(fmt::format("/proc/{}/environ", child)));
      if (process && !has_ended(child)) all.push_back(*process);
    }
  }
  return all;
}

std::optional<ProcessUsage> usage_of(pid_t pid) {
  const std::string status = content_of(fmt::format("/proc/{}/status", pid));
  if (status.empty() || has_ended(pid)) return std::nullopt;
  ProcessUsage usage{.resident_bytes = field(status, "VmRSS") << 10, .threads = field(status, "Threads")};
  std::error_code error;
  for (fs::directory_iterator entry(fmt::format("/proc/{}/fd", pid), error), end; !error && entry != end;
       entry.increment(error)) {
    ++usage.files;
    std::error_code closed;
    if (fs::read_symlink(entry->path(), closed).string().starts_with("socket:")) ++usage.sockets;
  }
  if (error) return std::nullopt;
  return usage;
}

}  // namespace trireme::chaos
