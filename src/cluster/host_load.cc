#include "cluster/host_load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "cluster/gpu_load.h"

namespace trireme::cluster {
namespace {

struct CloseProcFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

/// Returns the first block of a small file of /proc; empty if there is none.
std::string read_proc(const char* path) {
  const std::unique_ptr<std::FILE, CloseProcFile> file(std::fopen(path, "re"));
  if (!file) return {};
  std::array<char, 4096> block;
  return {block.data(), std::fread(block.data(), 1, block.size(), file.get())};
}

/// Returns the bytes that /proc/meminfo gives in kB behind `name`.
std::uint64_t meminfo(const std::string& text, const char* name) {
  const auto at = text.find(name);
  if (at == std::string::npos) return 0;
  return std::strtoull(text.c_str() + at + std::char_traits<char>::length(name), nullptr, 10) * 1024;
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

HostLoad host_load() {
  HostLoad load{.cores = std::max(1u, std::thread::hardware_concurrency())};
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  load.name = host.data();
  load.load = std::strtod(read_proc("/proc/loadavg").c_str(), nullptr);
  const std::string memory = read_proc("/proc/meminfo");
  load.memory = meminfo(memory, "MemTotal:");
  load.free = meminfo(memory, "MemAvailable:");
  const std::string pages = read_proc("/proc/self/statm");  // size, resident, …
  if (const auto second = pages.find(' '); second != std::string::npos) {
    load.resident =
        std::strtoull(pages.c_str() + second, nullptr, 10) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  }
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) load.cpu_s = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  load.gpus = gpu_load();
  return load;
}

}  // namespace trireme::cluster
