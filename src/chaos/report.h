#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "chaos/analysis.h"
#include "observe/bench_report.h"

namespace trireme::chaos {

/// All that a chaos run found.
struct ChaosReport {
  std::vector<Recovery> recoveries;
  std::uint64_t planned = 0;  ///< faults; 0: as many as there was time for
  WorkAudit audit;
  Pace pace;
  std::optional<Pace> reference;
  std::string not_compared;        ///< why the parameters need not be those of the undisturbed run
  std::string parameters_sha256;   ///< empty: the run did not get so far
  std::string reference_sha256;    ///< empty: there is nothing to compare with
  std::optional<double> accuracy;  ///< on the test set, at the end
  std::optional<double> reference_accuracy;
  std::string failure;         ///< why the disturbed run failed; empty: it did not
  std::vector<Growth> growth;  ///< of a soak
  std::string folder;

  /// Useful steps per step that an undisturbed run makes in the same time; NaN without a reference. A run that failed
  /// has made nothing of use.
  double goodput() const;
};

/// What is wrong, one sentence each; nothing: the chaos run is passed.
std::vector<std::string> problems_of(const ChaosReport& report);

/// By role and fault: how often, recovery median and worst, steps redone. One row of `bench recover`.
std::vector<observe::Json> summarise(std::span<const Recovery> recoveries);

observe::Json to_object(const ChaosReport& report);

/// Tables and a verdict, with a line end after each line.
std::string to_text(const ChaosReport& report);

}  // namespace trireme::chaos
