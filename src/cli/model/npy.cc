#include "cli/model/npy.h"

#include <fmt/format.h>

namespace trireme::cli {

std::string npy_header(const std::string& dtype, const std::vector<std::uint64_t>& shape) {
  constexpr std::size_t kBeforeText = 10;  // magic, version, length
  constexpr std::size_t kAligned = 64;
  std::string extents;
  for (const std::uint64_t extent : shape) extents += fmt::format("{},", extent);
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", dtype, extents);
  text.append((kAligned - (kBeforeText + text.size() + 1) % kAligned) % kAligned, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace trireme::cli
