// An image, PNG or JPEG.
#include "data/images/image.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  fuzz::returns_or_refuses([&] {
    const data::Image image = data::decode_image(as_bytes(fuzz::text_of(data, size)), "it");
    fuzz::require(image.pixels.size() == std::size_t{3} * image.height * image.width, "pixels are missing");
    std::vector<std::uint8_t> planes(12);
    data::resize_to_planes(image, 2, 2, planes.data());
  });
  return 0;
}
