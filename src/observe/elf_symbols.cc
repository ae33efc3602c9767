#include "observe/elf_symbols.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>

namespace trireme::observe {
namespace {

constexpr std::uint64_t kLargestTable = 512UL * 1024 * 1024;

/// Reads `count` values at `offset`; an empty list if the file is shorter.
template <typename Value>
std::vector<Value> read_values(std::ifstream& in, std::uint64_t offset, std::uint64_t count) {
  if (count > kLargestTable / sizeof(Value)) return {};
  std::vector<Value> values(count);
  in.clear();
  in.seekg(static_cast<std::streamoff>(offset));
  in.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(count * sizeof(Value)));
  if (!in) values.clear();
  return values;
}

}  // namespace

ElfSymbols::ElfSymbols(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const auto header = read_values<Elf64_Ehdr>(in, 0, 1);
  if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0 ||
      header[0].e_ident[EI_CLASS] != ELFCLASS64 || header[0].e_shentsize != sizeof(Elf64_Shdr)) {
    return;
  }
  const auto sections = read_values<Elf64_Shdr>(in, header[0].e_shoff, header[0].e_shnum);
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& strings = sections[section.sh_link];
    const auto names = read_values<char>(in, strings.sh_offset, strings.sh_size);
    for (const Elf64_Sym& symbol : read_values<Elf64_Sym>(in, section.sh_offset, section.sh_size / sizeof(Elf64_Sym))) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_value == 0 || symbol.st_name >= names.size()) continue;
      const char* name = names.data() + symbol.st_name;
      symbols_.push_back({.begin = symbol.st_value,
                          .size = symbol.st_size,
                          .name = std::string(name, ::strnlen(name, names.size() - symbol.st_name))});
    }
  }
  std::ranges::sort(symbols_, {}, &Symbol::begin);
}

std::string ElfSymbols::name_at(std::uint64_t offset) const {
  const auto after = std::ranges::upper_bound(symbols_, offset, {}, &Symbol::begin);
  if (after == symbols_.begin()) return "";
  const Symbol& symbol = *std::prev(after);
  return offset < symbol.begin + std::max<std::uint64_t>(1, symbol.size) ? symbol.name : "";
}

}  // namespace trireme::observe
