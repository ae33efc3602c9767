#pragma once

#include <span>
#include <string>
#include <vector>

#include "checkpoint/file_system.h"
#include "checkpoint/list.h"

namespace trireme::checkpoint {

/// Which checkpoints stay.
struct RetentionPolicy {
  std::uint32_t keep_last = 3;  ///< of the highest steps; 0 = all
  std::uint32_t keep_best = 1;  ///< and these of the highest score
};

struct Removal {
  std::filesystem::path folder = {};
  std::string reason = {};
};

/// What `policy` no longer wants of `entries` (by step, ascending). `current` was just completed and always stays.
/// An incomplete one goes only if its step lies before `current`: any other may still be in progress. A damaged one
/// stays: it is evidence, or the work of a newer program. Pure.
std::vector<Removal> decide_removals(std::span<const CheckpointEntry> entries, const RetentionPolicy& policy,
                                     Step current);

/// Removes a step folder and the files that writers put there, the manifest first and durably: a crash half way leaves
/// an incomplete folder, never half a checkpoint that looks whole. Files of others, and then the folder, stay.
/// Throws IoError.
void remove_checkpoint(FileSystem& files, const std::filesystem::path& folder);

}  // namespace trireme::checkpoint
