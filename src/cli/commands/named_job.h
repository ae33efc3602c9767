#pragma once

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "launch/job/running_job.h"

namespace trireme::cli {

/// Which job a command is for: that of a run's folder, or one whose processes were placed by hand.
struct NamedJob {
  std::string run;
  std::string master;
  std::string secret_file;

  std::string name() const { return master.empty() ? run : "the job of " + master; }
};

void declare_job(CLI::App& command, NamedJob& job);

/// Throws InvalidArgument (none is named, or no secret is known), and as launch::RunningJob does.
std::unique_ptr<launch::RunningJob> find_job(const NamedJob& job);

}  // namespace trireme::cli
