#pragma once

#include <filesystem>
#include <string>

namespace trireme::launch {

/// Reads new lines of a growing file; those that are there already, of an earlier launch, are not. Not thread-safe.
class LogFollower {
 public:
  explicit LogFollower(std::filesystem::path path);

  /// Returns the complete lines that were added since the last call, without the last line break; empty if there is
  /// none.
  std::string next_lines();

 private:
  std::filesystem::path path_;
  std::size_t read_ = 0;
};

/// Returns `lines` without those that the library logged as a matter of routine: what a program prints, and warnings.
std::string without_routine(const std::string& lines);

}  // namespace trireme::launch
