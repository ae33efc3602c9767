#include "data/records/tar_samples.h"

#include "base/error.h"
#include "data/records/tar.h"

namespace trireme::data {

TarMember split_member_name(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t dot = name.find('.', base);
  if (dot == std::string_view::npos || dot == base) return {};
  return {.key = name.substr(0, dot), .extension = name.substr(dot + 1)};
}

Offsets scan_tar_samples(const RandomAccessFile& file) {
  if (file.size() == 0) fail<Corrupt>("{}: the file is empty, expected a tar", file.at(0));
  ScanBuffer buffer(file);
  TarReader reader(
      file.size(), [&](std::uint64_t offset, std::size_t count) { return buffer.at(offset, count); },
      [&](std::uint64_t offset) { return file.at(offset); });
  Offsets offsets;
  std::string key;
  TarEntry entry;
  while (reader.next(entry)) {
    const TarMember name = split_member_name(entry.name);
    if (name.extension.empty() || (!offsets.empty() && name.key == key)) continue;
    key = name.key;
    offsets.push_back(entry.header);
  }
  if (offsets.empty()) fail<Corrupt>("{}: a tar without samples", file.at(0));
  offsets.push_back(reader.offset());
  return offsets;
}

}  // namespace trireme::data
