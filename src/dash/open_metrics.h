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

/// Returns `/metrics` in either format: see net::MetricsText. Ranks are labels up to 1,000 workers; beyond that only
/// what all have in common is told. Pure.
std::string to_open_metrics(const Measured& measured, bool open_metrics);

/// Returns where the processes of a job serve their own `/metrics` (`--metrics`), as Prometheus' discovery by HTTP
/// reads it: [{"targets": ["127.0.0.1:9100"], "labels": {"role": "worker", "slot": "0", "host": "node7"}}]. Only of
/// those on `host`, the page's: processes serve to their own machine, and the others' addresses mean another one. Pure.
std::string to_targets(const cluster::JobStatus& status, const std::string& host);

}  // namespace trireme::dash
