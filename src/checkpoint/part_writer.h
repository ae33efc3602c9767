#pragma once

#include <stop_token>

#include "trireme/deadline.h"

#include "checkpoint/file_system.h"
#include "checkpoint/layout.h"
#include "checkpoint/staging.h"

namespace trireme::checkpoint {

// The two halves of a write, as plain functions that block. Both throw IoError, and Error "given up" once `stop` is
// requested, within a fraction of a second unless the disk hangs.

/// Writes a part's .bin and then its index into `folder`, which is created if needed; both are on disk when it returns.
/// On failure it removes what it wrote, if it can, so that a full disk does not stay full. Throws InvalidArgument if
/// the folder holds a complete checkpoint of the same attempt, which must not be overwritten.
void write_part(FileSystem& files, const std::filesystem::path& folder, const PartKey& key, const Staging& staging,
                std::uint64_t bytes_per_second, const std::stop_token& stop);

/// Waits for the indexes of all `manifest.parts` (of which only the number is set) of this attempt, checks that they
/// hold every byte of every tensor once, and renames the manifest into place. Then removes the parts of a complete
/// checkpoint that this one replaced. Throws Timeout naming the missing parts, Corrupt if the parts do not match.
void complete_checkpoint(FileSystem& files, const std::filesystem::path& folder, Manifest manifest,
                         const Deadline& deadline, const std::stop_token& stop);

}  // namespace trireme::checkpoint
