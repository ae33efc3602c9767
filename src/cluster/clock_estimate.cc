#include "cluster/clock_estimate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"

namespace trireme::cluster {
namespace {

ClockBounds widened(ClockBounds bounds, std::int64_t age) {
  const auto drift =
      static_cast<std::int64_t>(std::ceil(ClockEstimate::kDrift * static_cast<double>(std::max<std::int64_t>(0, age))));
  bounds.least -= drift;
  bounds.most += drift;
  return bounds;
}

}  // namespace

std::string own_clock_id() {
  try {
    std::string boot = read_file("/proc/sys/kernel/random/boot_id");
    boot.erase(boot.find_last_not_of('\n') + 1);
    std::error_code none;  // an old kernel: there are no time namespaces
    const auto names = std::filesystem::read_symlink("/proc/self/ns/time", none);
    return boot + " " + names.string();
  } catch (const IoError&) {  // not Linux
    return "";
  }
}

std::int64_t clock_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Deadline::Clock::now().time_since_epoch()).count();
}

void ClockEstimate::add(const std::string& id, std::int64_t sent, std::int64_t master, std::int64_t received) {
  const ClockBounds told{.least = master - received, .most = master - sent, .known = true};
  if (received < sent) return;
  const ClockBounds before = widened(bounds_, received - measured_);
  const bool same = bounds_.known && id == id_;
  const bool agrees = same && before.least <= told.most && told.least <= before.most;
  bounds_ = told;
  if (agrees) {  // else another master leads, or one of the two hosts slept
    bounds_.least = std::max(before.least, told.least);
    bounds_.most = std::min(before.most, told.most);
  }
  id_ = id;
  measured_ = received;
}

ClockBounds ClockEstimate::at(std::int64_t now) const {
  if (bounds_.known && !own_id_.empty() && own_id_ == id_) return {.least = 0, .most = 0, .known = true};
  return bounds_.known ? widened(bounds_, now - measured_) : ClockBounds{};
}

}  // namespace trireme::cluster
