#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "trireme/deadline.h"

#include "launch/process.h"
#include "tests/support/eventually.h"

namespace trireme::launch {

/// A new folder that goes away with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "trireme-launch-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline std::string content_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

inline bool contains(const std::filesystem::path& path, const std::string& text) {
  return content_of(path).find(text) != std::string::npos;
}

/// The letter the kernel gives its state: 'R', 'S', 'T' (stopped), 'Z' (ended, not reaped); 0 if there is no such
/// process.
inline char state_of(pid_t pid) {
  const std::string stat = content_of("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = stat.rfind(')');  // "pid (name) state ..."
  return name_end == std::string::npos ? '\0' : stat.at(name_end + 2);
}

/// Not running any more, reaped or not.
inline bool is_gone(pid_t pid) { return state_of(pid) == '\0' || state_of(pid) == 'Z'; }

inline ProcessSpec shell(std::string script, std::filesystem::path log = {}) {
  return {.name = "worker 0", .argv = {"/bin/sh", "-c", std::move(script)}, .log = std::move(log)};
}

}  // namespace trireme::launch
