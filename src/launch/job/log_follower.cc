#include "launch/job/log_follower.h"

#include <fstream>
#include <iterator>
#include <sstream>

#include "base/log.h"

namespace trireme::launch {

LogFollower::LogFollower(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code missing;
  const auto size = std::filesystem::file_size(path_, missing);
  if (!missing) read_ = size;
}

std::string LogFollower::next_lines() {
  std::ifstream in(path_, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(read_));
  const std::string fresh((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto end = fresh.rfind('\n');
  if (end == std::string::npos) return "";
  read_ += end + 1;
  return fresh.substr(0, end);
}

std::string without_routine(const std::string& lines) {
  std::istringstream text(lines);
  std::string kept;
  for (std::string line; std::getline(text, line);) {
    if (!is_routine(line)) kept += line + "\n";
  }
  if (!kept.empty()) kept.pop_back();
  return kept;
}

}  // namespace trireme::launch
