#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace trireme::data {

constexpr std::uint64_t kMostPixels = std::uint64_t{1} << 28;  ///< of an image; one that claims more is refused unread

/// A decoded image: rows of pixels, each red, green and blue.
struct Image {
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::vector<std::uint8_t> pixels = {};
};

/// Returns the image that `bytes` hold, PNG or JPEG by their first bytes; grey becomes three equal colours, what is
/// transparent is seen on black. Throws Corrupt, beginning with `where`, if it is neither or damaged; InvalidArgument,
/// saying what to install, if Trireme was built without the library.
Image decode_image(Bytes bytes, const std::string& where);

// The two kinds; decode_image chooses.
Image decode_png(Bytes bytes, const std::string& where);
Image decode_jpeg(Bytes bytes, const std::string& where);
bool has_png();
bool has_jpeg();

/// Writes `image` scaled to `height` x `width` into `out`, colour after colour: 3 x height x width. Bilinear between
/// the nearest four pixels, in whole numbers, so the same everywhere; one that becomes much smaller is not smoothed
/// before.
void resize_to_planes(const Image& image, std::uint32_t height, std::uint32_t width, std::uint8_t* out);

}  // namespace trireme::data
