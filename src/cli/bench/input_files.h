#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "trireme/dataset.h"

namespace trireme::cli {

/// Generated files of one kind of source, and how they are opened.
struct InputSource {
  std::string name = {};
  std::vector<std::filesystem::path> files = {};
  std::function<data::DatasetPtr()> open = {};
  bool streams = false;  ///< read where it is, so it may be larger than memory: its speed has a target
};

/// Writes files for every source into `folder`, which exists: those that stream of about `bytes`, the others of at
/// most 16 MiB. What this build cannot read is left out. Throws IoError.
std::vector<InputSource> make_input_files(const std::filesystem::path& folder, std::uint64_t bytes);

}  // namespace trireme::cli
