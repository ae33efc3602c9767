#include "data/arrays/zip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"

namespace trireme::data {
namespace {

// The layout of zips is that of PKWARE's APPNOTE.TXT 6.3.
constexpr std::string_view kEndMagic = "PK\x05\x06";
constexpr std::string_view kEntryMagic = "PK\x01\x02";
constexpr std::string_view kLocalMagic = "PK\x03\x04";
constexpr std::string_view kLocator64Magic = "PK\x06\x07";
constexpr std::string_view kEnd64Magic = "PK\x06\x06";
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kLocator64Bytes = 20;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kEntryBytes = 46;
constexpr std::size_t kLocalBytes = 30;
constexpr std::uint64_t kMostDirectory = 64 * kMiB;

std::vector<std::byte> read_at(const RandomAccessFile& zip, std::uint64_t offset, std::uint64_t count) {
  if (offset > zip.size() || count > zip.size() - offset) {
    fail<Corrupt>("{}: the zip is truncated: expected {} bytes from here on, and it has {}", zip.at(offset), count,
                  zip.size());
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  zip.read(offset, bytes);
  return bytes;
}

/// Where the directory is.
struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

Directory find_directory(const RandomAccessFile& zip) {
  constexpr std::uint64_t kMostComment = 65535;
  const std::uint64_t tail = std::min<std::uint64_t>(zip.size(), kEndBytes + kMostComment);
  const std::vector<std::byte> bytes = read_at(zip, zip.size() - tail, tail);
  const std::size_t at = as_text(bytes).rfind(kEndMagic);
  if (at == std::string_view::npos || bytes.size() - at < kEndBytes) {
    fail<Corrupt>("{}: no zip: it has no directory at its end; is it truncated?", zip.at(zip.size()));
  }
  const Bytes end = Bytes(bytes).subspan(at);
  Directory directory{.offset = load_le<std::uint32_t>(end.subspan(16)),
                      .size = load_le<std::uint32_t>(end.subspan(12))};
  const std::uint64_t end_offset = zip.size() - tail + at;
  if (end_offset < kLocator64Bytes) return directory;
  const std::vector<std::byte> locator = read_at(zip, end_offset - kLocator64Bytes, kLocator64Bytes);
  if (!as_text(locator).starts_with(kLocator64Magic)) return directory;
  const auto end64_offset = load_le<std::uint64_t>(Bytes(locator).subspan(8));
  const std::vector<std::byte> end64 = read_at(zip, end64_offset, kEnd64Bytes);
  if (!as_text(end64).starts_with(kEnd64Magic))
    fail<Corrupt>("{}: the zip's directory is damaged", zip.at(end64_offset));
  return {.offset = load_le<std::uint64_t>(Bytes(end64).subspan(48)),
          .size = load_le<std::uint64_t>(Bytes(end64).subspan(40))};
}

/// Sizes and offset beyond 32 bits stand in an extra field, in this order, each only if it does not fit.
void read_extra64(Bytes extra, ZipEntry& entry, const std::string& where) {
  constexpr std::uint16_t kZip64 = 1;
  constexpr std::uint64_t kElsewhere = 0xffffffff;
  while (extra.size() >= 4) {
    const auto kind = load_le<std::uint16_t>(extra);
    const std::size_t size = load_le<std::uint16_t>(extra.subspan(2));
    extra = extra.subspan(4);
    if (size > extra.size()) fail<Corrupt>("{}: a damaged extra field", where);
    Bytes content = extra.first(size);
    extra = extra.subspan(size);
    if (kind != kZip64) continue;
    for (std::uint64_t* const value : {&entry.size, &entry.packed, &entry.begin}) {
      if (*value != kElsewhere) continue;
      if (content.size() < 8) fail<Corrupt>("{}: a damaged extra field", where);
      *value = load_le<std::uint64_t>(content);
      content = content.subspan(8);
    }
  }
}

/// Behind the local header, which repeats the name and has extra fields of its own.
void find_content(const RandomAccessFile& zip, ZipEntry& entry) {
  const std::uint64_t header = entry.begin;
  const std::vector<std::byte> local = read_at(zip, header, kLocalBytes);
  if (!as_text(local).starts_with(kLocalMagic)) fail<Corrupt>("{}: expected the file '{}'", zip.at(header), entry.name);
  entry.begin = header + kLocalBytes + load_le<std::uint16_t>(Bytes(local).subspan(26)) +
                load_le<std::uint16_t>(Bytes(local).subspan(28));
  if (entry.begin > zip.size() || entry.packed > zip.size() - entry.begin) {
    fail<Corrupt>("{}: the file '{}' claims {} bytes, and the zip ends at {}", zip.at(entry.begin), entry.name,
                  entry.packed, zip.size());
  }
  if (!entry.deflated && entry.packed != entry.size) {
    fail<Corrupt>("{}: the file '{}' is not packed, but has {} bytes here and {} there", zip.at(header), entry.name,
                  entry.packed, entry.size);
  }
}

/// Unpacks raw deflate data.
class Inflater {
 public:
  explicit Inflater(std::string where) : where_(std::move(where)) {
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Fills `out` as far as `input` goes; drops from `input` what it used.
  std::size_t unpack(Bytes& input, MutableBytes out) {
    stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(input.data()));
    stream_.avail_in = static_cast<uInt>(input.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      fail<Corrupt>("{}: damaged deflate data: {}", where_, stream_.msg != nullptr ? stream_.msg : "unknown");
    }
    ended_ = result == Z_STREAM_END;
    input = input.last(stream_.avail_in);
    return out.size() - stream_.avail_out;
  }
  bool ended() const { return ended_; }

 private:
  std::string where_;
  z_stream stream_{};
  bool ended_ = false;
};

class Checksum {
 public:
  void add(Bytes bytes) {
    value_ = static_cast<std::uint32_t>(::crc32_z(value_, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
    size_ += bytes.size();
  }
  void compare(const ZipEntry& entry, const std::string& where) const {
    if (size_ != entry.size || value_ != entry.checksum) {
      fail<Corrupt>("{}: the file '{}' is damaged: {} bytes with checksum {:08x}, expected {} with {:08x}", where,
                    entry.name, size_, value_, entry.size, entry.checksum);
    }
  }

 private:
  std::uint32_t value_ = 0;
  std::uint64_t size_ = 0;
};

ZipContent unpack_entry(const RandomAccessFile& zip, const ZipEntry& entry) {
  Inflater inflater(zip.at(entry.begin));
  Checksum checksum;
  std::vector<std::byte> buffer(256 * kKiB);
  Bytes input;
  std::uint64_t taken = 0;
  const auto unpack = [&](MutableBytes out) -> std::size_t {
    while (!inflater.ended()) {
      if (input.empty()) {
        const MutableBytes part = MutableBytes(buffer).first(
            static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), entry.packed - taken)));
        if (part.empty())
          fail<Corrupt>("{}: the file '{}' ends within its data", zip.at(entry.begin + taken), entry.name);
        zip.read(entry.begin + taken, part);
        taken += part.size();
        input = part;
      }
      const std::size_t got = inflater.unpack(input, out);
      checksum.add(Bytes(out).first(got));
      if (got > 0) return got;
    }
    return 0;
  };
  auto file = std::make_shared<const RandomAccessFile>(zip.path(), unpack);
  checksum.compare(entry, zip.at(entry.begin));
  return {.file = std::move(file)};
}

}  // namespace

std::vector<ZipEntry> read_zip_directory(const RandomAccessFile& zip) {
  const Directory directory = find_directory(zip);
  if (directory.size > kMostDirectory)
    fail<Corrupt>("{}: a directory of {} bytes", zip.at(directory.offset), directory.size);
  const std::vector<std::byte> bytes = read_at(zip, directory.offset, directory.size);
  std::vector<ZipEntry> entries;
  for (Bytes left = bytes; left.size() >= kEntryBytes;) {
    const std::string where = zip.at(directory.offset + (bytes.size() - left.size()));
    const std::size_t name = load_le<std::uint16_t>(left.subspan(28));
    const std::size_t extra = load_le<std::uint16_t>(left.subspan(30));
    const std::size_t comment = load_le<std::uint16_t>(left.subspan(32));
    if (!as_text(left).starts_with(kEntryMagic) || left.size() - kEntryBytes < name + extra + comment) {
      fail<Corrupt>("{}: the zip's directory is damaged", where);
    }
    const auto flags = load_le<std::uint16_t>(left.subspan(8));
    const auto method = load_le<std::uint16_t>(left.subspan(10));
    ZipEntry entry{.name = std::string(as_text(left.subspan(kEntryBytes, name))),
                   .begin = load_le<std::uint32_t>(left.subspan(42)),
                   .packed = load_le<std::uint32_t>(left.subspan(20)),
                   .size = load_le<std::uint32_t>(left.subspan(24)),
                   .checksum = load_le<std::uint32_t>(left.subspan(16)),
                   .deflated = method == 8};
    if ((flags & 1) != 0 || (method != 0 && method != 8)) {
      fail<Corrupt>("{}: the file '{}' is encrypted, or packed in a way that is not read ({})", where, entry.name,
                    method);
    }
    read_extra64(left.subspan(kEntryBytes + name, extra), entry, where);
    find_content(zip, entry);
    entries.push_back(std::move(entry));
    left = left.subspan(kEntryBytes + name + extra + comment);
  }
  return entries;
}

ZipContent open_zip_entry(const std::shared_ptr<const RandomAccessFile>& zip, const ZipEntry& entry) {
  if (entry.deflated) return unpack_entry(*zip, entry);
  Checksum checksum;
  std::vector<std::byte> buffer(256 * kKiB);
  for (std::uint64_t done = 0; done < entry.size;) {
    const MutableBytes part =
        MutableBytes(buffer).first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), entry.size - done)));
    zip->read(entry.begin + done, part);
    checksum.add(part);
    done += part.size();
  }
  checksum.compare(entry, zip->at(entry.begin));
  return {.file = zip, .begin = entry.begin};
}

}  // namespace trireme::data
