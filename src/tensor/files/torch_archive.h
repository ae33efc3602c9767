#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <torch/types.h>

namespace trireme {

/// What a file of `torch::save(module, file)` holds. Names are those of the module: "conv1.weight".
struct TorchArchive {
  struct Entry {
    std::string name = {};
    torch::Tensor tensor = {};
    bool buffer = false;  ///< else a parameter
  };
  std::vector<Entry> tensors = {};
  std::vector<std::string> empty_modules = {};  ///< without tensors, such as dropout: torch::load asks for them, too
};

/// Writes a file that `torch::load(module, file)` reads; a reader sees the old file or the new one. Throws
/// InvalidArgument for names that such a file cannot hold (quotes; 'a' beside 'a.b'), IoError.
void write_torch_archive(const std::filesystem::path& file, const TorchArchive& archive);

/// Reads what `torch::save(module, file)` wrote, on the CPU. Nothing in the file is trusted: one with code in it
/// (TorchScript), which LibTorch would run, is refused, and so are tensors that reach beyond their bytes. Throws
/// Corrupt that says what is wrong, InvalidArgument for what no checkpoint can hold, IoError. LibTorch's own parser is
/// not hardened: read what strangers sent in a process of its own.
TorchArchive read_torch_archive(const std::filesystem::path& file);

}  // namespace trireme
