#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme::dash {

/// Follows `metrics.jsonl` of a run. Not thread-safe.
class MetricRows {
 public:
  explicit MetricRows(std::filesystem::path file) : file_(std::move(file)) {}

  struct News {
    bool reset = false;             ///< the file is another one, or was cut: forget the rows so far
    std::vector<std::string> rows;  ///< whole lines, as they are: one JSON object each
  };

  /// Returns the rows that were added since the last call. Of a file that is very long already at the first call, every
  /// n-th row of training, and all others: at most about `kMost` of them.
  News next();

  static constexpr std::size_t kMost = 20000;

 private:
  std::filesystem::path file_;
  ino_t inode_ = 0;
  std::uint64_t read_ = 0;
};

/// Returns at most about `most` of `rows`: every n-th of training, all that are of another kind or not finite, and the
/// last one.
std::vector<std::string> thin_out(std::vector<std::string> rows, std::size_t most);

}  // namespace trireme::dash
