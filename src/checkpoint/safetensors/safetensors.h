#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors/safetensors_header.h"

namespace trireme::checkpoint {

/// Writes `tensors` and `metadata` to `path`; a reader, even after a crash, sees the old file or the new one, never a
/// part. The same content gives the same bytes: tensors are laid out by element size (largest first, so that each is
/// aligned for its type) and then by name, whatever the order given. Tensor data is not copied on the way to the file.
/// Throws InvalidArgument for content that no reader would accept (see encode_header), IoError naming the file.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const Metadata& metadata = {});

/// A safetensors file opened for reading: mapped into memory, not read. Movable; the tensors' bytes live as long as the
/// object. Files by other writers may place tensors at any address: copy bytes out rather than cast pointers. The file
/// must not be truncated while it is mapped (ours never are: they are replaced whole).
class SafetensorsFile {
 public:
  /// Throws IoError if the file cannot be opened, Corrupt if it is not a valid safetensors file (see
  /// parse_safetensors). Does not read the tensors' own bytes.
  explicit SafetensorsFile(const std::filesystem::path& path);

  /// Returns all tensors, in the order of their bytes in the file.
  std::span<const TensorView> tensors() const { return content_.tensors; }

  const Metadata& metadata() const { return content_.metadata; }

  /// Returns the tensor called `name`, or null.
  const TensorView* find(std::string_view name) const;

  /// Returns the tensor called `name`; throws InvalidArgument that suggests the closest name.
  const TensorView& at(std::string_view name) const;

 private:
  struct Unmap {
    std::size_t size;
    void operator()(std::byte* address) const;
  };

  std::filesystem::path path_;
  std::unique_ptr<std::byte, Unmap> mapping_;
  SafetensorsContent content_;        // views into mapping_
  std::vector<std::size_t> by_name_;  // positions in content_.tensors, by name
};

}  // namespace trireme::checkpoint
