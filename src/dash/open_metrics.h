#pragma once

#include <optional>
#include <string>

#include "cluster/protocol.h"

namespace trireme::dash {

/// What a scraper of a job's master is told.
struct Measured {
  cluster::JobStatus status;
  std::optional<double> checkpoint_age_s = {};  ///< nullopt = there is none
  std::optional<double> goodput = {};
  std::string version = {};
};

/// Returns `/metrics`: OpenMetrics 1.0 (with units, `# EOF`), or Prometheus' older text format for scrapers that do not
/// ask for it. Ranks are labels up to 1,000 workers; beyond that only what all have in common is told. Pure.
std::string to_open_metrics(const Measured& measured, bool open_metrics);

inline constexpr const char* kOpenMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8";
inline constexpr const char* kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace trireme::dash
