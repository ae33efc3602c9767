#pragma once

#include <zlib.h>

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tests/data/support.h"

namespace trireme::data {

/// An array as numpy.save writes it.
template <typename T>
std::string npy_file(const std::string& type, const std::string& shape, const std::vector<T>& values,
                     bool fortran = false) {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", type, fortran ? "True" : "False", shape);
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  return (file + header).append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

inline std::string le(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

/// A zip of these files.
inline std::string zip_file(const std::vector<std::pair<std::string, std::string>>& files, bool packed) {
  std::string zip;
  std::string directory;
  for (const auto& [name, content] : files) {
    const std::string stored = packed ? deflated(content) : content;
    const auto sum = crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
    const std::string common = le(20, 2) + le(0, 2) + le(packed ? 8 : 0, 2) + le(0, 4) + le(sum, 4) +
                               le(stored.size(), 4) + le(content.size(), 4) + le(name.size(), 2) + le(0, 2);
    directory +=
        "PK\x01\x02" + le(20, 2) + common + le(0, 2) + le(0, 2) + le(0, 2) + le(0, 4) + le(zip.size(), 4) + name;
    zip += "PK\x03\x04" + common + name + stored;
  }
  const std::string count = le(files.size(), 2);
  return zip + directory + "PK\x05\x06" + le(0, 4) + count + count + le(directory.size(), 4) + le(zip.size(), 4) +
         le(0, 2);
}

}  // namespace trireme::data
