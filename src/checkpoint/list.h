#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/file_system.h"
#include "checkpoint/format.h"

namespace trireme::checkpoint {

class Checkpoint;

/// A step folder, as described by its manifest.
struct CheckpointEntry {
  enum class State {
    kComplete,    ///< has a valid manifest
    kIncomplete,  ///< has none: in progress, or its writers died
    kDamaged,     ///< has an invalid one, or one written by a newer program
  };

  std::filesystem::path folder = {};
  Step step = 0;
  State state = State::kIncomplete;
  std::string problem = {};  ///< why it is damaged

  // Only for complete ones:
  std::uint64_t bytes = 0;  ///< of all parts
  std::int64_t written_ms = 0;
  std::optional<double> score = {};
  std::size_t tensors = 0;
  std::size_t parts = 0;
};

/// Returns the checkpoints in `<run>/checkpoints`, by step, ascending; empty if there is no such folder. Reads
/// manifests only. Throws IoError.
std::vector<CheckpointEntry> list_checkpoints(const std::filesystem::path& folder,
                                              FileSystem& files = real_file_system());

/// Returns the step folder of the newest checkpoint whose manifest, indexes and file lengths are valid; nullopt if
/// there is none. Skips a newer one that is damaged, with a warning in the log that says why. Throws IoError.
std::optional<std::filesystem::path> latest_complete(const std::filesystem::path& folder);

/// Calls `read` with the newest checkpoint that can be opened; if it throws Corrupt, with the one before that, and so
/// on. The log says of each that was passed over why. Returns false if there is no checkpoint; throws Corrupt if there
/// are some and none is sound, IoError, and what else `read` throws.
bool read_newest(const std::filesystem::path& folder, const std::function<void(const Checkpoint&)>& read);

/// The folder of steps, and the step folder if `path` named one. `path` may be a run's folder, its `checkpoints`
/// folder, or a step folder in there; `locate` throws InvalidArgument if it is none of them.
struct Located {
  std::filesystem::path folder = {};
  std::optional<std::filesystem::path> step_folder = {};
};
Located locate(const std::filesystem::path& path);

}  // namespace trireme::checkpoint
