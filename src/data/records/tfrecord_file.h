#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "data/records/record_index.h"

namespace trireme::data {

/// A file of TFRecord: each record is its length, a checksum of that, its bytes, a checksum of them. Thread-safe.
class TfRecordFile {
 public:
  /// Opens it, and reads or makes its index. Throws IoError, or Corrupt with file and offset if the lengths are
  /// damaged.
  explicit TfRecordFile(const std::filesystem::path& path);

  std::uint64_t size() const { return offsets_.size() - 1; }  ///< records

  /// How many bytes records `first` to `first + count - 1` take in the file.
  std::size_t span_of(std::uint64_t first, std::size_t count) const {
    return static_cast<std::size_t>(offsets_[first + count] - offsets_[first]);
  }

  /// Reads `count` records from `first` on into `buffer`, of span_of bytes, and appends where each one's bytes are to
  /// `records`. Throws Corrupt with file and offset if a checksum is wrong.
  void read(std::uint64_t first, std::size_t count, MutableBytes buffer, std::vector<Bytes>& records) const;

  /// Returns `/data/x.tfrecord, byte 128`: where a record begins.
  std::string at(std::uint64_t record) const { return file_.at(offsets_[record]); }
  const std::filesystem::path& path() const { return file_.path(); }
  const Offsets& offsets() const { return offsets_; }  ///< where each begins, and where the last one ends

 private:
  Offsets scan() const;

  RandomAccessFile file_;
  Offsets offsets_;
};

/// Appends a record to `out`: what tests and benchmarks write files with.
void append_record(Bytes record, std::string& out);

}  // namespace trireme::data
