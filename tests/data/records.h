#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/records/tfrecord_file.h"

namespace trireme::data {

/// A field of protocol buffers that holds bytes.
inline std::string proto(int number, std::string_view content) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  std::size_t size = content.size();
  for (; size > 0x7f; size >>= 7) out += static_cast<char>(size | 0x80);
  out += static_cast<char>(size);
  return out.append(content);
}

inline std::string bytes_feature(std::string_view name, std::string_view value) {
  return proto(1, proto(1, name) + proto(2, proto(1, proto(1, value))));
}
inline std::string float_feature(std::string_view name, const std::vector<float>& values) {
  const std::string_view raw(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return proto(1, proto(1, name) + proto(2, proto(2, proto(1, raw))));
}
/// Each below 128.
inline std::string int_feature(std::string_view name, const std::vector<char>& values) {
  return proto(1, proto(1, name) + proto(2, proto(3, proto(1, {values.data(), values.size()}))));
}

inline std::string record(std::string_view features) {
  std::string out;
  append_record(as_bytes(proto(1, features)), out);
  return out;
}

/// One file of a tar, padded.
inline std::string tar_file(const std::string& name, std::string_view content, char type = '0',
                            std::uint64_t claimed = 0) {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(100, 7, "0000644");
  header.replace(124, 11, fmt::format("{:011o}", claimed > 0 ? claimed : content.size()));
  header[156] = type;
  header.replace(257, 5, "ustar");
  header.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  header.replace(148, 7, fmt::format("{:06o}", sum) + '\0');
  header += content;
  header.resize((header.size() + 511) / 512 * 512, '\0');
  return header;
}

}  // namespace trireme::data
