#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme::observe {

/// The functions of a program or shared library on disk, from its symbol table: for the names of frames that the
/// dynamic loader does not know. Of a file that is stripped, missing or no 64-bit ELF there are none.
class ElfSymbols {
 public:
  explicit ElfSymbols(const std::filesystem::path& file);

  /// Returns the mangled name of the function that `offset`, relative to where the file is loaded, lies in; empty if it
  /// is not known.
  std::string name_at(std::uint64_t offset) const;

 private:
  struct Symbol {
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
    std::string name;
  };

  std::vector<Symbol> symbols_;  // by address
};

}  // namespace trireme::observe
