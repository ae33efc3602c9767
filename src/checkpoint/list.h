#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/file_system.h"
#include "checkpoint/format.h"

namespace trireme::checkpoint {

/// A step folder, as far as its manifest tells.
struct CheckpointEntry {
  enum class State {
    kComplete,    ///< has a sound manifest
    kIncomplete,  ///< has none: in progress, or its writers died
    kDamaged,     ///< has one that cannot be believed, or was written by a newer program
  };

  std::filesystem::path folder = {};
  Step step = 0;
  State state = State::kIncomplete;
  std::string problem = {};  ///< why it is damaged

  // Of complete ones:
  std::uint64_t bytes = 0;  ///< of all parts
  std::int64_t written_ms = 0;
  std::optional<double> score = {};
  std::size_t tensors = 0;
  std::size_t parts = 0;
};

/// What is in `<run>/checkpoints`, by step, ascending; nothing if there is no such folder. Reads manifests only.
/// Throws IoError.
std::vector<CheckpointEntry> list_checkpoints(const std::filesystem::path& folder,
                                              FileSystem& files = real_file_system());

/// The step folder of the newest checkpoint whose manifest, indexes and file lengths are right; nothing if there is
/// none. A newer one that is damaged is skipped, with a warning in the log that says why. Throws IoError.
std::optional<std::filesystem::path> latest_complete(const std::filesystem::path& folder);

/// `path` may be a run's folder, its `checkpoints` folder, or a step folder in there: the folder of steps, and the
/// step that was named. Throws InvalidArgument if `path` is none of them.
struct Located {
  std::filesystem::path folder = {};
  std::optional<std::filesystem::path> step_folder = {};
};
Located locate(const std::filesystem::path& path);

}  // namespace trireme::checkpoint
