#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "checkpoint/format.h"
#include "checkpoint/layout.h"

namespace trireme::checkpoint {

/// A complete checkpoint, opened for reading. Movable; immutable, so reading is thread-safe. It stays readable when its
/// folder is removed meanwhile.
class Checkpoint {
 public:
  /// Opens a step folder. Checks manifest, indexes and file lengths; the tensors' bytes are checked when they are read.
  /// Throws Corrupt naming the file and what was expected; IoError.
  static Checkpoint open(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  Step step() const { return manifest_.step; }
  const nlohmann::json& meta() const { return manifest_.meta; }
  std::span<const TensorInfo> tensors() const { return manifest_.tensors; }
  std::uint64_t bytes() const;  ///< of all parts

  /// Returns the tensor called `name`, or null.
  const TensorInfo* find(std::string_view name) const;

  /// Returns the tensor called `name`; throws InvalidArgument that suggests the closest name.
  const TensorInfo& at(std::string_view name) const;

  /// Fills `to` with the bytes of `tensor` from `offset` on. Checks the CRC of every block it touches: throws Corrupt
  /// naming file, block, bytes and tensors (see blocks.h), and then leaves `to` unspecified. Throws InvalidArgument
  /// beyond the tensor's end; IoError.
  void read(std::string_view tensor, std::uint64_t offset, MutableBytes to) const;

  /// Returns the whole tensor.
  std::vector<std::byte> read(std::string_view tensor) const;

 private:
  struct Part {
    PartIndex index;
    std::filesystem::path path;  // of the .bin
    FileDescriptor file;
  };

  Checkpoint() = default;
  void read_part(const Part& part, std::uint64_t position, MutableBytes to) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  std::vector<Part> parts_;
  std::vector<std::vector<Extent>> extents_;  // by tensor
  std::unordered_map<std::string, std::size_t> numbers_;
};

}  // namespace trireme::checkpoint
