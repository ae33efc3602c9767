#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/file_system.h"
#include "checkpoint/format.h"

namespace trireme::checkpoint {

/// The place of some bytes of a tensor.
struct Extent {
  std::uint64_t offset = 0;  ///< in the tensor
  std::uint64_t length = 0;
  std::uint32_t part = 0;
  std::uint64_t position = 0;  ///< in the part's .bin file
};

/// Returns the place of every byte of every tensor: by tensor, in byte order. `indexes` are all parts, by number.
/// Throws Corrupt naming `origin`, the tensor and the bytes if one is in no part or in two, or a piece belongs to no
/// tensor.
std::vector<std::vector<Extent>> lay_out(std::span<const TensorInfo> tensors, std::span<const PartIndex> indexes,
                                         const std::string& origin);

/// Identifies a part: step, attempt and number.
struct PartKey {
  Step step = 0;
  std::string attempt = {};
  std::uint32_t part = 0;
  std::uint32_t parts = 1;

  std::string stem() const { return part_stem(part, parts, attempt); }
};

struct LoadedIndex {
  PartIndex index = {};
  std::string sha256 = {};  ///< of the file
};

/// Returns the index of a part in `folder`. Throws Corrupt if it is missing or damaged, is of another step, attempt or
/// part than its name says, or its .bin file has another length; IoError. Does not read the .bin file.
LoadedIndex load_index(FileSystem& files, const std::filesystem::path& folder, const PartKey& key);

/// Returns the manifest of the checkpoint in `folder`. Throws Corrupt if there is none (the checkpoint was not
/// completed), if it is damaged or of another step than the folder's name says; IoError.
Manifest load_manifest(FileSystem& files, const std::filesystem::path& folder);

/// Returns the index of part `part` of the checkpoint in `folder`, also checked against its manifest. Throws like
/// load_index.
PartIndex load_part(FileSystem& files, const std::filesystem::path& folder, const Manifest& manifest,
                    std::uint32_t part);

}  // namespace trireme::checkpoint
