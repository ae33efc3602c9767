#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/blocks.h"

namespace trireme::checkpoint {

struct VerifyReport {
  std::uint64_t bytes = 0;                 ///< of tensors that were read
  std::uint64_t blocks = 0;                ///< of how many blocks
  std::vector<Damage> damaged = {};        ///< blocks that are not what was written
  std::vector<std::string> problems = {};  ///< with files as such: missing, cut short, a damaged index or manifest

  bool sound() const { return damaged.empty() && problems.empty(); }
};

/// Reads all of the checkpoint in `folder` and compares it with its checksums; goes on after what it finds, as far as
/// indexes can be believed. Memory: one block. Throws IoError only where a file that is there cannot be read.
VerifyReport verify(const std::filesystem::path& folder);

}  // namespace trireme::checkpoint
