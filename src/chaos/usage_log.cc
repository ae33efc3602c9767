#include "chaos/usage_log.h"

#include <fmt/format.h>

namespace trireme::chaos {
namespace {

constexpr auto kEvery = 2s;
constexpr double kMemoryShare = 0.1;
constexpr double kMemoryFloor = 8 << 20;
constexpr double kFew = 3;  // files, sockets, threads that come and go

}  // namespace

void UsageLog::sample(pid_t launcher, const std::vector<JobProcess>& processes) {
  if (!next_.passed()) return;
  next_ = Deadline::in(kEvery);
  ++looks_;
  look_at(launcher, "launcher");
  for (const JobProcess& process : processes) {
    const std::string role = to_string(process.role);
    look_at(process.pid, process.role == FaultRole::kMaster ? role : fmt::format("{} {}", role, process.slot));
  }
}

void UsageLog::look_at(pid_t pid, const std::string& name) {
  const auto usage = usage_of(pid);
  if (!usage) return;
  Record& record = records_[pid];
  record.name = name;
  record.samples.push_back(*usage);
}

std::vector<Growth> UsageLog::judge() const {
  std::vector<Growth> all;
  for (const auto& [pid, record] : records_) {
    if (record.samples.size() + 2 < looks_ || record.samples.size() < 3) continue;  // it started later, or ended
    const auto judge_one = [&](const char* what, std::uint64_t ProcessUsage::*field, double share, double floor) {
      std::vector<double> values;
      for (const ProcessUsage& usage : record.samples) values.push_back(static_cast<double>(usage.*field));
      all.push_back(judge_growth(record.name, what, values, share, floor));
    };
    judge_one("memory", &ProcessUsage::resident_bytes, kMemoryShare, kMemoryFloor);
    judge_one("files", &ProcessUsage::files, 0, kFew);
    judge_one("sockets", &ProcessUsage::sockets, 0, kFew);
    judge_one("threads", &ProcessUsage::threads, 0, kFew);
  }
  return all;
}

}  // namespace trireme::chaos
