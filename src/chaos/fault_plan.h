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
  kSlow,      ///< it gets a tenth of its time for a while
  kDiskFull,  ///< checkpoints cannot be written for a while; happens to the job, not to a process
};

/// To whom it happens.
enum class FaultRole { kWorker, kServer, kMaster, kDisk };

std::string to_string(FaultKind kind);
std::string to_string(FaultRole role);

/// "kill", "disk-full". Throws InvalidArgument with what there is.
FaultKind parse_fault_kind(const std::string& text);

/// "worker", "server", "master". Throws InvalidArgument with what there is.
FaultRole parse_fault_role(const std::string& text);

/// What happens to whom, and when.
struct Fault {
  Step step = 0;  ///< when training has got so far
  FaultKind kind = FaultKind::kKill;
  FaultRole role = FaultRole::kWorker;
  std::uint32_t slot = 0;  ///< which of the processes of the role

  bool operator==(const Fault&) const = default;
};

struct FaultPlanOptions {
  std::vector<FaultKind> kinds = {FaultKind::kKill};
  std::vector<FaultRole> roles = {FaultRole::kWorker};
  Step every = 20;           ///< one fault in each stretch of so many steps, somewhere in it
  std::uint32_t count = 10;  ///< 0: without end
  std::uint64_t seed = 1;
  std::uint32_t workers = 1;
  std::uint32_t servers = 0;
  std::uint32_t spared = 0;  ///< workers with lower slots are left alone
};

/// A seeded sequence of faults: the same options give the same faults, whatever happens meanwhile. A value; counts what
/// was injected.
class FaultPlan {
 public:
  /// Throws InvalidArgument if there is nobody to whom the faults could happen.
  explicit FaultPlan(FaultPlanOptions options);

  /// The fault with this number, from 0. Pure.
  Fault fault(std::uint64_t number) const;

  /// The next one, if training that has got to `now` is far enough for it; null if not, or if there are no more.
  const Fault* due(Step now) const;

  /// The one that was due has been injected, or given up: the next one is next.
  void injected();
  void skipped();

  bool finished() const { return options_.count > 0 && next_ >= options_.count; }
  std::uint64_t injections() const { return injected_; }

  /// How often what was injected.
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
