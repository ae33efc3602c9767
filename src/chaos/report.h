#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/metrics.h"

#include "chaos/analysis.h"
#include "observe/bench_report.h"

namespace trireme::chaos {

/// All findings of a chaos run.
struct ChaosReport {
  std::vector<Recovery> recoveries;
  std::uint64_t planned = 0;  ///< faults; 0: as many as there was time for
  WorkAudit audit;
  Pace pace;
  std::optional<Pace> reference;
  std::string counted = "samples";      ///< what the audit counts: "lanes" where nobody knows how many samples one has
  std::string compared = "parameters";  ///< what the hashes are of: "state" for a dist::State
  bool reproducible = true;             ///< false: undisturbed runs differ from each other too
  std::string not_compared;             ///< why the parameters may differ from those of the undisturbed run
  std::string parameters_sha256;        ///< empty: the run did not get that far
  std::string reference_sha256;         ///< empty: there is nothing to compare with
  std::vector<NamedValue> scores;       ///< on the test set, at the end
  std::vector<NamedValue> reference_scores;  ///< of the undisturbed run
  std::string failure;                       ///< why the disturbed run failed; empty: it did not
  std::vector<Growth> growth;                ///< of a soak
  std::string folder;

  /// Returns useful steps per step that an undisturbed run makes in the same time; NaN without a reference, 0 if the
  /// run failed.
  double goodput() const;
};

/// Returns what is wrong, one sentence each; empty: the chaos run passed.
std::vector<std::string> problems_of(const ChaosReport& report);

/// Returns a row for each role and fault: how often, recovery median and worst, steps redone. For `bench recover`.
std::vector<observe::Json> summarise(std::span<const Recovery> recoveries);

observe::Json to_object(const ChaosReport& report);

/// Returns tables and a verdict, with a newline after each line.
std::string to_text(const ChaosReport& report);

}  // namespace trireme::chaos
