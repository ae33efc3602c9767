#pragma once

#include <span>
#include <string>
#include <vector>

#include "checkpoint/file_system.h"
#include "checkpoint/list.h"

namespace trireme::checkpoint {

/// Which checkpoints are kept.
struct RetentionPolicy {
  std::uint32_t keep_last = 3;  ///< those of the highest steps; 0 = all
  std::uint32_t keep_best = 1;  ///< and those of the highest score
};

struct Removal {
  std::filesystem::path folder = {};
  std::string reason = {};
};

/// Returns which of `entries` (by step, ascending) `policy` no longer keeps. `current` was just completed and always
/// stays. An incomplete one is removed only if its step is before `current`: any other may still be in progress. A
/// damaged one stays: it is evidence, or the work of a newer program. Pure.
std::vector<Removal> decide_removals(std::span<const CheckpointEntry> entries, const RetentionPolicy& policy,
                                     Step current);

/// Removes a step folder and the files that writers put there, the manifest first and durably: a crash half way leaves
/// an incomplete folder, never half a checkpoint that looks whole. Other files stay, and with them the folder. Throws
/// IoError.
void remove_checkpoint(FileSystem& files, const std::filesystem::path& folder);

/// Renames the folders of the steps after `step`, to `step-000000600.aside` and the like, so that nobody takes them for
/// checkpoints of the run any more. Returns their new paths. Throws IoError.
std::vector<std::filesystem::path> set_aside_after(FileSystem& files, const std::filesystem::path& folder, Step step);

}  // namespace trireme::checkpoint
