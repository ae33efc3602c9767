#pragma once

#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/data/dataset.h"

namespace trireme::data {

/// A fresh folder that goes away with the test.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "trireme-data-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Writes a file and tells its path.
  std::filesystem::path write(const std::string& name, std::string_view content) const {
    std::ofstream out(path_ / name, std::ios::binary);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    if (!out.flush()) throw std::runtime_error("cannot write " + name);
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

/// `content` as one gzip member.
inline std::string gzipped(std::string_view content) {
  z_stream stream{};
  if (deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::bad_alloc();
  std::string packed(deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int result = deflate(&stream, Z_FINISH);
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) throw std::runtime_error("cannot compress");
  return packed;
}

inline std::vector<std::uint64_t> first_indices(std::uint64_t count) {
  std::vector<std::uint64_t> indices(count);
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

inline Batch read_all(const Dataset& dataset) {
  Batch batch;
  dataset.read(first_indices(dataset.size()), batch);
  return batch;
}

}  // namespace trireme::data

/// `statement` throws exactly an `Exception` whose message contains each of the given texts.
#define EXPECT_FAILS(statement, Exception, ...)                               \
  do {                                                                        \
    try {                                                                     \
      statement;                                                              \
      ADD_FAILURE() << #statement " did not throw";                           \
    } catch (const Exception& error) {                                        \
      for (const std::string& part : std::vector<std::string>{__VA_ARGS__}) { \
        EXPECT_THAT(error.what(), ::testing::HasSubstr(part));                \
      }                                                                       \
    }                                                                         \
  } while (false)
