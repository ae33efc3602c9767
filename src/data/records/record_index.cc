#include "data/records/record_index.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"

namespace trireme::data {
namespace {

constexpr std::size_t kScanBytes = 256 * kKiB;

/// What an index begins with; the offsets follow.
struct IndexHeader {
  std::array<char, 16> magic = {};  ///< "trireme index 1\n"
  std::array<char, 16> kind = {};
  std::uint64_t file_size = 0;
  std::int64_t modified = 0;
  std::uint64_t offsets = 0;
  std::uint32_t checksum = 0;  ///< of the offsets
  std::uint32_t reserved = 0;

  bool operator==(const IndexHeader&) const = default;
};
static_assert(sizeof(IndexHeader) == 64);

IndexHeader header_of(const RandomAccessFile& file, std::string_view kind, const Offsets& offsets) {
  IndexHeader header{.file_size = file.size(), .modified = file.modified(), .offsets = offsets.size()};
  std::memcpy(header.magic.data(), "trireme index 1\n", header.magic.size());
  std::memcpy(header.kind.data(), kind.data(), std::min(kind.size(), header.kind.size()));
  header.checksum = crc32c(std::as_bytes(std::span(offsets)));
  return header;
}

/// Returns what the index holds; empty if it is not that of this file as it is now.
Offsets read_index(const std::filesystem::path& path, const RandomAccessFile& file, std::string_view kind) {
  Offsets offsets;
  try {
    const RandomAccessFile index(path);
    IndexHeader header;
    if (index.packed() || index.size() < sizeof(header)) return {};
    index.read(0, std::as_writable_bytes(std::span(&header, 1)));
    if (header.offsets != (index.size() - sizeof(header)) / sizeof(std::uint64_t)) return {};
    offsets.resize(header.offsets);
    index.read(sizeof(header), std::as_writable_bytes(std::span(offsets)));
    if (header != header_of(file, kind, offsets)) return {};
  } catch (const Error&) {
    return {};
  }
  const bool in_order = std::ranges::is_sorted(offsets) && !offsets.empty() && offsets.back() <= file.size();
  return in_order ? offsets : Offsets{};
}

}  // namespace

Offsets load_index(const RandomAccessFile& file, std::string_view kind, const std::function<Offsets()>& scan) {
  if (file.packed()) return scan();
  std::filesystem::path path = file.path();
  path += ".index";
  if (std::filesystem::exists(path)) {
    Offsets offsets = read_index(path, file, kind);
    if (!offsets.empty()) return offsets;
  }
  Offsets offsets = scan();
  try {
    const IndexHeader header = header_of(file, kind, offsets);
    write_file_atomically(path, [&](const std::function<void(Bytes)>& sink) {
      sink(std::as_bytes(std::span(&header, 1)));
      sink(std::as_bytes(std::span(offsets)));
    });
  } catch (const IoError& problem) {
    log_warn("index_not_written", "cannot keep the index of a file: the next one who reads it has to scan it again",
             {{"file", file.path().string()}, {"reason", problem.what()}});
  }
  return offsets;
}

Bytes ScanBuffer::at(std::uint64_t offset, std::size_t count) {
  const std::uint64_t left = offset < file_.size() ? file_.size() - offset : 0;
  count = static_cast<std::size_t>(std::min<std::uint64_t>(count, left));
  if (offset < begin_ || offset + count > begin_ + buffer_.size()) {
    buffer_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(std::max(count, kScanBytes), left)));
    begin_ = offset;
    file_.read(offset, buffer_);
  }
  return Bytes(buffer_).subspan(static_cast<std::size_t>(offset - begin_), count);
}

}  // namespace trireme::data
