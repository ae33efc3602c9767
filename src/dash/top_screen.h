#pragma once

#include <optional>
#include <string>

#include "cluster/protocol.h"
#include "dash/run_history.h"

namespace trireme::dash {

struct TopOptions {
  int columns = 80;
  int rows = 24;
  bool colour = true;
  std::string run = {};  ///< its name
};

/// Returns one screen of `trireme top`: how far, how fast, who does what, what happened last. Never more than `rows`
/// lines of at most `columns` characters. Pure.
std::string render_top(const cluster::JobStatus& status, const RunHistory& history, double now,
                       const TopOptions& options);

/// Returns in a word what a worker's time goes into: "data", "compute", "wait", "network", "update"; empty if nothing
/// is known. Pure.
std::string bound_by(const std::vector<double>& phases);

}  // namespace trireme::dash
