#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trireme/types.h"

namespace trireme::chaos {

enum class FaultKind {
  kKill,      ///< SIGKILL
  kStop,      ///< SIGSTOP, and SIGCONT after a while
  kCut,       ///< the TCP connections of the process are cut
  kSlow,      ///< it gets a tenth of its CPU time for a while
  kDiskFull,  ///< checkpoints cannot be written for a while; affects the job, not a process
};

/// What a fault hits.
enum class FaultRole { kWorker, kServer, kMaster, kDisk };

std::string to_string(FaultKind kind);
std::string to_string(FaultRole role);

/// Parses "kill", "disk-full". Throws InvalidArgument that lists the known ones.
FaultKind parse_fault_kind(const std::string& text);

/// Parses "worker", "server", "master". Throws InvalidArgument that lists the known ones.
FaultRole parse_fault_role(const std::string& text);

/// What happens to which process, and when.
struct Fault {
  std::uint64_t due = 0;  ///< the step that training has to reach, or milliseconds since its first: FaultClock
  FaultKind kind = FaultKind::kKill;
  FaultRole role = FaultRole::kWorker;
  std::uint32_t slot = 0;  ///< which of the processes of the role

  bool operator==(const Fault&) const = default;
};

/// What the time between faults is counted in.
enum class FaultClock {
  kSteps,         ///< of the training: the same seed hits the same steps
  kMilliseconds,  ///< a storm, which does not wait for training to get on
};

struct FaultPlanOptions {
  std::vector<FaultKind> kinds = {FaultKind::kKill};
  std::vector<FaultRole> roles = {FaultRole::kWorker};
  FaultClock clock = FaultClock::kSteps;
  std::uint64_t every = 20;  ///< one fault in each interval of this length, at a random moment of it
  std::uint32_t count = 10;  ///< 0: unlimited
  std::uint64_t seed = 1;
  std::uint32_t workers = 1;
  std::uint32_t servers = 0;
  std::uint32_t spared = 0;  ///< workers with lower slots are not hit
};

/// A seeded sequence of faults: the same options give the same faults, whatever happens meanwhile. A value; counts what
/// was injected.
class FaultPlan {
 public:
  /// Throws InvalidArgument if there is nothing that the faults could hit.
  explicit FaultPlan(FaultPlanOptions options);

  /// Returns the fault with this number, from 0. Pure.
  Fault fault(std::uint64_t number) const;

  /// Returns the next fault if it is due at `now`, by the plan's clock; null if not, or if there are no more.
  const Fault* due(std::uint64_t now) const;

  /// Record that the due fault was injected, or skipped, and move on to the next one.
  void injected();
  void skipped();

  bool finished() const { return options_.count > 0 && next_ >= options_.count; }
  std::uint64_t injections() const { return injected_; }

  /// Returns how often each kind of fault was injected.
  const std::map<std::pair<FaultRole, FaultKind>, std::uint64_t>& counts() const { return counts_; }

  const FaultPlanOptions& options() const { return options_; }

 private:
  void advance();

  FaultPlanOptions options_;
  std::uint64_t next_ = 0;
  std::uint64_t injected_ = 0;
  Fault upcoming_;
  std::map<std::pair<FaultRole, FaultKind>, std::uint64_t> counts_;
};

}  // namespace trireme::chaos
