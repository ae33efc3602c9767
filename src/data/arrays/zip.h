#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/files/random_access_file.h"

namespace trireme::data {

/// A file in a zip.
struct ZipEntry {
  std::string name = {};
  std::uint64_t begin = 0;   ///< offset of its content in the zip
  std::uint64_t packed = 0;  ///< bytes there
  std::uint64_t size = 0;    ///< unpacked
  std::uint32_t checksum = 0;
  bool deflated = false;  ///< else it is stored as it is
};

/// Returns the files in a zip, also in one of more than 4 GiB, in the order of its directory. Throws Corrupt with file
/// and offset if the zip is damaged or truncated, encrypted, or packed in another way than by deflate.
std::vector<ZipEntry> read_zip_directory(const RandomAccessFile& zip);

/// A file in a zip, to be read at any place.
struct ZipContent {
  std::shared_ptr<const RandomAccessFile> file = {};  ///< the zip itself, or what was unpacked
  std::uint64_t begin = 0;                            ///< where in it the content begins
};

/// Opens one: unpacks it if it is packed, and compares its checksum. Throws Corrupt with file and offset.
ZipContent open_zip_entry(const std::shared_ptr<const RandomAccessFile>& zip, const ZipEntry& entry);

}  // namespace trireme::data
