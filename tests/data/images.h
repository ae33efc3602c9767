#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::data {

inline std::string be32(std::uint32_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift);
  return text;
}

inline std::string png_chunk(const std::string& kind, const std::string& content) {
  const std::string body = kind + content;
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return be32(static_cast<std::uint32_t>(content.size())) + body + be32(static_cast<std::uint32_t>(sum));
}

/// A PNG of red, green and blue bytes; it may claim to be larger than it is.
inline std::string png_file(std::uint32_t height, std::uint32_t width, const std::vector<std::uint8_t>& pixels,
                            std::uint32_t claimed_height = 0) {
  std::string rows;
  for (std::uint32_t row = 0; row < height; ++row) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(pixels.data()) + std::size_t{row} * width * 3, std::size_t{width} * 3);
  }
  std::string packed(compressBound(static_cast<uLong>(rows.size())), '\0');
  auto size = static_cast<uLongf>(packed.size());
  compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()),
           static_cast<uLong>(rows.size()));
  packed.resize(size);
  const std::string header =
      be32(width) + be32(claimed_height > 0 ? claimed_height : height) + std::string("\x08\x02\0\0\0", 5);
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", header) + png_chunk("IDAT", packed) + png_chunk("IEND", "");
}

/// An image of one colour.
inline std::string plain_png(std::uint32_t side, std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
  std::vector<std::uint8_t> pixels;
  for (std::uint32_t i = 0; i < side * side; ++i) pixels.insert(pixels.end(), {red, green, blue});
  return png_file(side, side, pixels);
}

}  // namespace trireme::data
