#include "checkpoint/safetensors/convert.h"

#include <chrono>

#include "base/error.h"
#include "cli/ckpt/commands.h"
#include "cli/ckpt/conversion_report.h"
#include "cli/model/torch_archive_process.h"
#include "observe/run_folder.h"

namespace trireme::cli {
namespace {

using namespace std::chrono_literals;

bool is_torch_archive(const std::filesystem::path& file) {
  return file.extension() == ".pt" || file.extension() == ".pth";
}

/// Returns how long it may take to read a torch archive: with a disk that is slow, not with one that hangs.
std::chrono::milliseconds time_for(const CkptImportOptions& options) {
  if (options.time_limit > 0) return std::chrono::milliseconds(static_cast<std::int64_t>(options.time_limit * 1000));
  std::error_code unknown;
  const std::uintmax_t bytes = std::filesystem::file_size(options.file, unknown);
  return 60s + std::chrono::milliseconds(unknown ? 0 : bytes / 5000);
}

}  // namespace

int ckpt_export(const CkptExportOptions& options) {
  if (!is_torch_archive(options.file) && !options.file.ends_with(".safetensors")) {
    fail<InvalidArgument>("{}: export writes .safetensors, or a torch archive: .pt or .pth", options.file);
  }
  const std::filesystem::path folder = choose(options.choice);
  if (is_torch_archive(options.file)) {
    if (options.all)
      fail<InvalidArgument>("{}: a torch archive holds the model alone; --all needs safetensors", options.file);
    return run_torch_archive({"export", folder.string(), options.file}, options.file, 24h);
  }
  const auto opened = checkpoint::Checkpoint::open(folder);
  tell_exported(options.file, opened.step(),
                checkpoint::export_safetensors(opened, options.file, {.all = options.all}));
  return 0;
}

int ckpt_import(const CkptImportOptions& options) {
  // Held meanwhile, so that no run goes on in it; a folder that is not there yet belongs to no run.
  std::optional<observe::RunFolder> folder;
  if (std::filesystem::exists(options.run)) folder = observe::RunFolder::reopen(options.run);
  const auto checkpoints = std::filesystem::path(options.run) / "checkpoints";
  if (is_torch_archive(options.file)) {
    return run_torch_archive({"import", options.file, checkpoints.string()}, options.file, time_for(options));
  }
  tell_imported(checkpoints, checkpoint::import_safetensors(options.file, checkpoints));
  return 0;
}

}  // namespace trireme::cli
