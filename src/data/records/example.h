#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace trireme::data {

/// One feature of a `tf.train.Example`, where it lies in the record.
struct Feature {
  enum class Kind { kNone, kBytes, kFloat, kInt64 };

  Kind kind = Kind::kNone;
  Bytes list = {};  ///< the BytesList, FloatList or Int64List
};

const char* name_of(Feature::Kind kind);  ///< as TensorFlow calls it: `bytes`, `float`, `int64`

/// Calls `take` for each feature of a serialised `tf.train.Example`. Throws Corrupt that names the byte of the record.
void parse_example(Bytes record, const std::function<void(std::string_view name, const Feature& feature)>& take);

/// Returns how many values a feature has; of bytes, how many bytes in all. Throws Corrupt.
std::size_t count_values(const Feature& feature);

/// Writes them to `out`, which has room for count_values: floats, 64-bit integers or bytes, one after the other.
void copy_values(const Feature& feature, std::byte* out);

}  // namespace trireme::data
