#pragma once

#include <zlib.h>

#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/transforms.h"

#include "tests/support/expect_fails.h"
#include "tests/support/temp_folder.h"

namespace trireme::data {

/// `content` packed, in the form that zlib chooses by `window_bits`: bare unless given.
inline std::string deflated(std::string_view content, int window_bits = -MAX_WBITS) {
  z_stream stream{};
  if (deflateInit2(&stream, 1, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::bad_alloc();
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

/// `content` as one gzip member.
inline std::string gzipped(std::string_view content) { return deflated(content, MAX_WBITS + 16); }

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

/// The numbers of the first field, and of the second: what most sources have.
inline std::vector<float> features(const Batch& batch) {
  const auto values = batch.values<float>(0);
  return {values.begin(), values.end()};
}
inline std::vector<std::int64_t> labels(const Batch& batch) {
  const auto values = batch.values<std::int64_t>(1);
  return {values.begin(), values.end()};
}

inline std::vector<std::int64_t> sample_shape(const Dataset& dataset) { return dataset.schema()[0].shape; }
inline std::int64_t classes(const Dataset& dataset) { return dataset.schema()[1].limit(0); }

}  // namespace trireme::data
