#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::observe {

/// A HistogramProto.
struct ReadHistogram {
  double min = 0, max = 0, num = 0, sum = 0, sum_squares = 0;
  std::vector<double> limits;
  std::vector<double> buckets;
};

/// What one record of an event file says.
struct Event {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string file_version;
  std::optional<std::string> tag;
  float value = 0;
  bool session_start = false;
  std::optional<ReadHistogram> histogram;
  std::map<std::string, std::string> hyperparameters;  ///< numbers as "=0.1"
};

/// Decodes a whole event file, written apart from the writer and stricter than TensorBoard: throws Corrupt for a wrong
/// checksum, a cut record, an unknown field, bytes left over.
std::vector<Event> read_events(std::string_view file);

}  // namespace trireme::observe
