#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"

namespace trireme::cli {

// The commands of `trireme ckpt`. Each prints to standard output and returns the exit status.

/// Which checkpoint the user means.
struct CkptChoice {
  std::string path = {};                   ///< a run's folder, its checkpoints folder, or the folder of one step
  std::optional<std::uint64_t> step = {};  ///< nullopt = the newest
};

struct CkptListOptions {
  std::string path = {};
  bool json = false;
};

struct CkptShowOptions {
  CkptChoice choice = {};
  bool quick = false;  ///< names and shapes only: reads no tensor
  bool json = false;
};

struct CkptVerifyOptions {
  CkptChoice choice = {};
  bool json = false;
};

struct CkptDiffOptions {
  CkptChoice a = {};
  CkptChoice b = {};
  bool json = false;
};

struct CkptExportOptions {
  CkptChoice choice = {};
  std::string file = {};  ///< .pt or .pth: a torch archive; else safetensors
  bool all = false;       ///< every tensor under its full name; else the model alone
};

struct CkptImportOptions {
  std::string file = {};  ///< .pt or .pth: a torch archive; else safetensors
  std::string run = {};
  double time_limit = 0;  ///< seconds for a torch archive; 0: by its size
};

/// Returns the step folder that `choice` means. Throws InvalidArgument that lists the steps there are. `damaged_too`:
/// the newest may be one with a damaged manifest; else such a one is skipped, with a warning.
std::filesystem::path choose(const CkptChoice& choice, bool damaged_too = false);

int ckpt_list(const CkptListOptions& options);
int ckpt_show(const CkptShowOptions& options);
int ckpt_verify(const CkptVerifyOptions& options);  ///< 1 if it is damaged
int ckpt_diff(const CkptDiffOptions& options);      ///< 1 if they differ
int ckpt_export(const CkptExportOptions& options);
int ckpt_import(const CkptImportOptions& options);

/// For people: `[2, 3]`, `3 min`, `2026-03-01 09:15:02 UTC`.
std::string shape_text(const std::vector<std::int64_t>& shape);
std::string age_text(std::int64_t written_ms);
std::string time_text(std::int64_t written_ms);

}  // namespace trireme::cli
