#include "chaos/fault_plan.h"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/random.h"
#include "base/suggest.h"

namespace trireme::chaos {
namespace {

constexpr std::array kKinds{std::pair{FaultKind::kKill, "kill"}, std::pair{FaultKind::kStop, "stop"},
                            std::pair{FaultKind::kCut, "cut"}, std::pair{FaultKind::kSlow, "slow"},
                            std::pair{FaultKind::kDiskFull, "disk-full"}};

constexpr std::array kRoles{std::pair{FaultRole::kWorker, "worker"}, std::pair{FaultRole::kServer, "server"},
                            std::pair{FaultRole::kMaster, "master"}};

template <typename Table>
auto parse(const Table& table, const char* flag, const std::string& text) {
  std::vector<std::string> names;
  for (const auto& [value, name] : table) {
    if (text == name) return value;
    names.emplace_back(name);
  }
  fail<InvalidArgument>("{} {}{}: use {}", flag, text, did_you_mean(text, names), fmt::join(names, ", "));
}

}  // namespace

std::string to_string(FaultKind kind) {
  return std::ranges::find(kKinds, kind, [](const auto& entry) { return entry.first; })->second;
}

std::string to_string(FaultRole role) {
  const auto* entry = std::ranges::find(kRoles, role, [](const auto& known) { return known.first; });
  return entry == kRoles.end() ? "disk" : entry->second;
}

FaultKind parse_fault_kind(const std::string& text) { return parse(kKinds, "--faults", text); }

FaultRole parse_fault_role(const std::string& text) { return parse(kRoles, "--roles", text); }

FaultPlan::FaultPlan(FaultPlanOptions options) : options_(std::move(options)) {
  const auto wants = [&](FaultRole role) { return std::ranges::find(options_.roles, role) != options_.roles.end(); };
  if (options_.kinds.empty() || options_.roles.empty() || options_.every == 0) {
    fail<InvalidArgument>("a plan of faults needs kinds, roles and some time between them");
  }
  if (wants(FaultRole::kServer) && options_.servers == 0) {
    fail<InvalidArgument>("--roles server: this job has no servers; use --strategy ps --servers 2");
  }
  if (wants(FaultRole::kWorker) && options_.workers <= options_.spared) {
    fail<InvalidArgument>("--roles worker: {} of {} workers are spared, so nobody is left", options_.spared,
                          options_.workers);
  }
  upcoming_ = fault(0);
}

Fault FaultPlan::fault(std::uint64_t number) const {
  RandomStream random(mix_seed(options_.seed, number));
  Fault fault{.due = std::max<std::uint64_t>(1, number * options_.every + random.below(options_.every)),
              .kind = options_.kinds[random.below(options_.kinds.size())],
              .role = options_.roles[random.below(options_.roles.size())]};
  if (fault.kind == FaultKind::kDiskFull) fault.role = FaultRole::kDisk;
  if (fault.role == FaultRole::kServer) fault.slot = static_cast<std::uint32_t>(random.below(options_.servers));
  if (fault.role == FaultRole::kWorker) {
    fault.slot = options_.spared + static_cast<std::uint32_t>(random.below(options_.workers - options_.spared));
  }
  return fault;
}

const Fault* FaultPlan::due(std::uint64_t now) const {
  return finished() || upcoming_.due > now ? nullptr : &upcoming_;
}

void FaultPlan::injected() {
  ++injected_;
  ++counts_[{upcoming_.role, upcoming_.kind}];
  advance();
}

void FaultPlan::skipped() { advance(); }

void FaultPlan::advance() { upcoming_ = fault(++next_); }

}  // namespace trireme::chaos
