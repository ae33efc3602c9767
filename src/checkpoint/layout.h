#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/file_system.h"
#include "checkpoint/format.h"

namespace trireme::checkpoint {

/// Where some bytes of a tensor lie.
struct Extent {
  std::uint64_t offset = 0;  ///< in the tensor
  std::uint64_t length = 0;
  std::uint32_t part = 0;
  std::uint64_t position = 0;  ///< in the part's .bin file
};

/// Where every byte of every tensor lies: by tensor, in the order of bytes. `indexes` are all parts, by number. Throws
/// Corrupt naming `origin`, the tensor and the bytes if one is in no part or in two, or a piece belongs to no tensor.
std::vector<std::vector<Extent>> lay_out(std::span<const TensorInfo> tensors, std::span<const PartIndex> indexes,
                                         const std::string& origin);

/// Which part of which attempt at which step somebody looks for.
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

/// The index of a part in `folder`. Throws Corrupt if it is not there or damaged, is of another step, attempt or part
/// than its name says, or its .bin file has another length; IoError. The .bin file's content is not looked at.
LoadedIndex load_index(FileSystem& files, const std::filesystem::path& folder, const PartKey& key);

/// The manifest of the checkpoint in `folder`. Throws Corrupt if there is none (the checkpoint was not completed), if
/// it is damaged or of another step than the folder's name says; IoError.
Manifest load_manifest(FileSystem& files, const std::filesystem::path& folder);

/// The index of part `part` of the checkpoint in `folder`, checked also against what its manifest says of it. Throws as
/// load_index does.
PartIndex load_part(FileSystem& files, const std::filesystem::path& folder, const Manifest& manifest,
                    std::uint32_t part);

}  // namespace trireme::checkpoint
