#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "cli/commands/commands.h"
#include "cli/start/trained_run.h"
#include "cli/start/training.h"

namespace trireme::cli {

// What `trireme eval`, `predict` and `generate` have in common.

/// What they are asked to do.
struct UseFlags {
  std::string run;
  std::string data;
  std::string checkpoint;
  std::string part;
  std::uint32_t workers = 1;
  std::string device = "cpu";
  int threads = 0;
  bool json = false;
};

/// Declares RUN, --checkpoint, --device and --threads.
void declare_model(CLI::App& command, UseFlags& flags);

/// Declares DATA, --part, --workers and --json.
void declare_samples(CLI::App& command, UseFlags& flags);

/// Returns the model that the flags name, for its workers. Throws InvalidArgument, IoError, Corrupt.
ModelUse open_model(const UseFlags& flags);

/// Returns the same with the samples that the flags name; they were loaded once, and fit. Throws InvalidArgument that
/// names the field that does not.
ModelUse open_model_and_samples(const UseFlags& flags, bool with_targets);

/// A folder for what a job leaves, removed with this object unless it is kept.
class JobFolder {
 public:
  JobFolder();  ///< throws IoError
  ~JobFolder();
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  std::filesystem::path path_;
  bool kept_ = false;
};

/// Runs `verb` with `use` on all workers. Returns what the chief reported; null if it failed, which has been told, and
/// then the logs are kept.
nlohmann::json run_use(const std::string& verb, const ModelUse& use, const UseFlags& flags,
                       const WorkerProgram& program, JobFolder& folder);

}  // namespace trireme::cli
