#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trireme/types.h"

namespace trireme {

/// A span that has ended, as it travels from the process that recorded it.
struct RecordedSpan {
  std::string name;
  std::int64_t begin = 0;  ///< nanoseconds of that process's monotonic clock
  std::int64_t end = 0;
  std::int64_t thread = 0;        ///< the number that the kernel gave it
  std::optional<Step> step = {};  ///< that it belongs to
  bool overlaps = false;          ///< see Span::overlaps

  bool operator==(const RecordedSpan&) const = default;
};

/// `count` steps up to `until`. Processes that are asked one after the other tell of the same steps by it.
struct WantedSteps {
  static constexpr Step kNewest = std::numeric_limits<Step>::max();

  Step count = 5;
  Step until = kNewest;

  bool operator==(const WantedSteps&) const = default;
};

/// What one process did during its last steps.
struct Recording {
  std::vector<RecordedSpan> spans = {};              ///< in the order in which they ended
  std::map<std::int64_t, std::string> threads = {};  ///< the names of those that appear in `spans`
  std::uint64_t left_out = 0;                        ///< spans of these steps that were no longer known

  bool operator==(const Recording&) const = default;
};

}  // namespace trireme
