#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "checkpoint/format.h"

namespace trireme::checkpoint {

// Blocks of a part's .bin file: the unit that a checksum protects.

/// A block whose bytes differ from what was written.
struct Damage {
  std::filesystem::path file = {};
  std::uint32_t part = 0;
  std::uint64_t block = 0;
  std::uint64_t begin = 0;  ///< its bytes in the file: begin to end - 1
  std::uint64_t end = 0;
  std::uint32_t expected = 0;  ///< CRC-32C
  std::uint32_t found = 0;
  std::vector<PieceInfo> holds = {};  ///< the pieces of tensors in it
};

/// Returns `…/part-0-of-1.1.bin is damaged in block 3 (bytes 786432 to 1048575): CRC-32C is …, expected …; it holds …`.
std::string describe(const Damage& damage);

/// Returns the length of block `block` in bytes.
std::uint64_t block_length(const PartIndex& index, std::uint64_t block);

/// Opens a .bin file for reading. Throws IoError; Corrupt if it is not a plain file.
FileDescriptor open_data(const std::filesystem::path& path);

/// Reads block `block` into `to`, which has its length. Throws IoError; Corrupt if the file is too short.
void read_block(const FileDescriptor& file, const std::filesystem::path& path, const PartIndex& index,
                std::uint64_t block, MutableBytes to);

/// Compares the bytes read of a block with its checksum; returns nullopt if they match.
std::optional<Damage> check_block(const std::filesystem::path& path, const PartIndex& index, std::uint64_t block,
                                  Bytes bytes);

}  // namespace trireme::checkpoint
