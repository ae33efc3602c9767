#include "base/error.h"
#include "data/images/image.h"

#ifdef TRIREME_HAS_PNG
#include <png.h>
#endif

namespace trireme::data {

#ifdef TRIREME_HAS_PNG
bool has_png() { return true; }

Image decode_png(Bytes bytes, const std::string& where) {
  png_image reader{};
  reader.version = PNG_IMAGE_VERSION;
  struct Release {
    png_image* reader;
    ~Release() { png_image_free(reader); }
  } const release{&reader};
  if (png_image_begin_read_from_memory(&reader, bytes.data(), bytes.size()) == 0) {
    fail<Corrupt>("{}: damaged PNG image: {}", where, reader.message);
  }
  if (std::uint64_t{reader.width} * reader.height > kMostPixels) {
    fail<Corrupt>("{}: a PNG image of {}x{} pixels: more than any that is read", where, reader.height, reader.width);
  }
  reader.format = PNG_FORMAT_RGB;
  Image image{.height = reader.height, .width = reader.width};
  image.pixels.resize(PNG_IMAGE_SIZE(reader));
  const png_color black{};
  if (png_image_finish_read(&reader, &black, image.pixels.data(), 0, nullptr) == 0) {
    fail<Corrupt>("{}: damaged PNG image: {}", where, reader.message);
  }
  return image;
}
#else
bool has_png() { return false; }

Image decode_png(Bytes /*bytes*/, const std::string& where) {
  fail<InvalidArgument>(
      "{}: this Trireme was built without PNG images: install libpng (Debian: libpng-dev) and build "
      "it again",
      where);
}
#endif

}  // namespace trireme::data
