#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/blocks.h"

namespace trireme::checkpoint {

struct VerifyReport {
  std::uint64_t bytes = 0;                 ///< bytes of tensors that were read
  std::uint64_t blocks = 0;                ///< and their blocks
  std::vector<Damage> damaged = {};        ///< blocks that differ from what was written
  std::vector<std::string> problems = {};  ///< with whole files: missing, truncated, a damaged index or manifest

  bool sound() const { return damaged.empty() && problems.empty(); }
};

/// Reads the whole checkpoint in `folder` and compares it with its checksums; continues after a problem as far as valid
/// indexes allow. Needs memory for one block. Throws IoError only if an existing file cannot be read.
VerifyReport verify(const std::filesystem::path& folder);

}  // namespace trireme::checkpoint
