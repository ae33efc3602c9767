#include "data/images/image.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace trireme::data {
namespace {

constexpr std::array kPng{std::byte{0x89}, std::byte{'P'}, std::byte{'N'}, std::byte{'G'}};
constexpr std::array kJpeg{std::byte{0xff}, std::byte{0xd8}, std::byte{0xff}};

bool starts_as(Bytes bytes, Bytes magic) {
  return bytes.size() >= magic.size() && std::ranges::equal(bytes.first(magic.size()), magic);
}

/// Where a row or column of the result lies between two of the source: the centres of pixels lie at halves.
struct Between {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  std::uint32_t weight = 0;  ///< of `high`, in parts of kOne
};
constexpr std::uint32_t kOne = 1u << 11;

std::vector<Between> between(std::uint32_t from, std::uint32_t to) {
  std::vector<Between> result(to);
  for (std::uint64_t i = 0; i < to; ++i) {
    const auto at = static_cast<std::int64_t>((2 * i + 1) * from * kOne / (2 * std::uint64_t{to})) - kOne / 2;
    const std::uint64_t held = at < 0 ? 0 : static_cast<std::uint64_t>(at);
    const auto low = static_cast<std::uint32_t>(std::min<std::uint64_t>(held / kOne, from - 1));
    result[i] = {.low = low, .high = std::min(low + 1, from - 1), .weight = static_cast<std::uint32_t>(held % kOne)};
  }
  return result;
}

}  // namespace

Image decode_image(Bytes bytes, const std::string& where) {
  if (starts_as(bytes, kPng)) return decode_png(bytes, where);
  if (starts_as(bytes, kJpeg)) return decode_jpeg(bytes, where);
  fail<Corrupt>("{}: neither a PNG nor a JPEG image", where);
}

void resize_to_planes(const Image& image, std::uint32_t height, std::uint32_t width, std::uint8_t* out) {
  const std::size_t plane = std::size_t{height} * width;
  if (image.height == height && image.width == width) {
    for (std::size_t i = 0; i < plane; ++i) {
      for (std::size_t colour = 0; colour < 3; ++colour) out[colour * plane + i] = image.pixels[3 * i + colour];
    }
    return;
  }
  const std::vector<Between> rows = between(image.height, height);
  const std::vector<Between> columns = between(image.width, width);
  for (std::size_t y = 0; y < height; ++y) {
    const std::uint8_t* upper = image.pixels.data() + std::size_t{3} * rows[y].low * image.width;
    const std::uint8_t* lower = image.pixels.data() + std::size_t{3} * rows[y].high * image.width;
    for (std::size_t x = 0; x < width; ++x) {
      const auto& [left, right, across] = columns[x];
      for (std::size_t colour = 0; colour < 3; ++colour) {
        const std::size_t l = std::size_t{3} * left + colour;
        const std::size_t r = std::size_t{3} * right + colour;
        const std::uint32_t above = upper[l] * (kOne - across) + upper[r] * across;
        const std::uint32_t below = lower[l] * (kOne - across) + lower[r] * across;
        const std::uint64_t sum =
            std::uint64_t{above} * (kOne - rows[y].weight) + std::uint64_t{below} * rows[y].weight;
        out[colour * plane + y * width + x] = static_cast<std::uint8_t>((sum + kOne * kOne / 2) / (kOne * kOne));
      }
    }
  }
}

}  // namespace trireme::data
