#include "data/records/tfrecord_file.h"

#include "base/error.h"
#include "base/hash.h"

namespace trireme::data {
namespace {

constexpr std::size_t kBefore = 12;  // length and its checksum
constexpr std::size_t kAround = 16;  // and the checksum behind

/// TFRecord's checksums are masked, so that those of data with checksums in it are not special.
std::uint32_t masked_crc(Bytes bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

}  // namespace

TfRecordFile::TfRecordFile(const std::filesystem::path& path)
    : file_(path), offsets_(load_index(file_, "tfrecord", [this] { return scan(); })) {}

Offsets TfRecordFile::scan() const {
  if (file_.size() == 0) fail<Corrupt>("{}: the file is empty, expected records", file_.at(0));
  Offsets offsets;
  ScanBuffer buffer(file_);
  std::uint64_t at = 0;
  while (at < file_.size()) {
    const Bytes before = buffer.at(at, kBefore);
    const std::uint64_t left = file_.size() - at;
    if (left < kAround) {
      fail<Corrupt>("{}: the file is truncated: {} bytes are left, too few for record {}", file_.at(at), left,
                    offsets.size());
    }
    if (load_le<std::uint32_t>(before.subspan(8)) != masked_crc(before.first(8))) {
      fail<Corrupt>("{}: the length of record {} is damaged: its checksum is wrong{}", file_.at(at), offsets.size(),
                    at == 0 ? "; is this a file of TFRecord?" : "");
    }
    const auto length = load_le<std::uint64_t>(before);
    if (length > left - kAround) {
      fail<Corrupt>("{}: the file is truncated: record {} has {} bytes, but only {} are left", file_.at(at),
                    offsets.size(), length, left - kAround);
    }
    offsets.push_back(at);
    at += kAround + length;
  }
  offsets.push_back(at);
  return offsets;
}

void TfRecordFile::read(std::uint64_t first, std::size_t count, MutableBytes buffer,
                        std::vector<Bytes>& records) const {
  file_.read(offsets_[first], buffer);
  for (std::uint64_t record = first; record < first + count; ++record) {
    const std::size_t size = span_of(record, 1);
    const Bytes bytes = Bytes(buffer).first(size);
    buffer = buffer.subspan(size);
    if (size < kAround || load_le<std::uint64_t>(bytes) != size - kAround) {
      fail<Corrupt>("{}: record {} is not where {}.index says: was the file changed? Remove the index", at(record),
                    record, file_.path().string());
    }
    const Bytes content = bytes.subspan(kBefore, size - kAround);
    if (load_le<std::uint32_t>(bytes.last(4)) != masked_crc(content)) {
      fail<Corrupt>("{}: record {} is damaged: its checksum is wrong", at(record), record);
    }
    records.push_back(content);
  }
}

void append_record(Bytes record, std::string& out) {
  const auto number = [&](auto value) { out.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
  const auto length = static_cast<std::uint64_t>(record.size());
  number(length);
  number(masked_crc(std::as_bytes(std::span(&length, 1))));
  out.append(as_text(record));
  number(masked_crc(record));
}

}  // namespace trireme::data
