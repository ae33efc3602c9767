#include "base/error.h"
#include "data/images/image.h"

#ifdef TRIREME_HAS_JPEG
#include <jpeglib.h>

#include <csetjmp>
#include <cstdio>
#endif

namespace trireme::data {

#ifdef TRIREME_HAS_JPEG
namespace {

/// libjpeg's errors come back by longjmp: nothing with a destructor may live in between, so the result is the caller's.
struct JpegReader {
  jpeg_error_mgr errors{};
  std::jmp_buf escape{};
  char message[JMSG_LENGTH_MAX] = "";
  jpeg_decompress_struct state{};
};

void jump_out(j_common_ptr state) {
  auto* reader = reinterpret_cast<JpegReader*>(state->err);  // errors is its first member
  (*state->err->format_message)(state, reader->message);
  std::longjmp(reader->escape, 1);
}

/// libjpeg replaces what is missing by grey and only warns: for us the image is damaged.
void take_warning(j_common_ptr state, int level) {
  if (level < 0) jump_out(state);
}

bool read_jpeg_header(JpegReader& reader, Bytes bytes) {
  if (setjmp(reader.escape) != 0) return false;
  jpeg_create_decompress(&reader.state);
  jpeg_mem_src(&reader.state, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&reader.state, TRUE);
  reader.state.out_color_space = JCS_RGB;
  reader.state.dct_method = JDCT_ISLOW;  // the same bits on every processor
  return true;
}

bool read_jpeg_pixels(JpegReader& reader, std::uint8_t* pixels) {
  if (setjmp(reader.escape) != 0) return false;
  jpeg_start_decompress(&reader.state);
  while (reader.state.output_scanline < reader.state.output_height) {
    JSAMPROW row = pixels + std::size_t{3} * reader.state.output_scanline * reader.state.output_width;
    jpeg_read_scanlines(&reader.state, &row, 1);
  }
  jpeg_finish_decompress(&reader.state);
  return true;
}

}  // namespace

bool has_jpeg() { return true; }

Image decode_jpeg(Bytes bytes, const std::string& where) {
  JpegReader reader;
  reader.state.err = jpeg_std_error(&reader.errors);
  reader.errors.error_exit = jump_out;
  reader.errors.emit_message = take_warning;
  struct Release {
    jpeg_decompress_struct* state;
    ~Release() { jpeg_destroy_decompress(state); }
  } const release{&reader.state};
  if (!read_jpeg_header(reader, bytes)) fail<Corrupt>("{}: damaged JPEG image: {}", where, reader.message);
  Image image{.height = reader.state.image_height, .width = reader.state.image_width};
  if (std::uint64_t{image.width} * image.height > kMostPixels) {
    fail<Corrupt>("{}: a JPEG image of {}x{} pixels: more than any that is read", where, image.height, image.width);
  }
  image.pixels.resize(std::size_t{3} * image.height * image.width);
  if (!read_jpeg_pixels(reader, image.pixels.data())) {
    fail<Corrupt>("{}: damaged JPEG image: {}", where, reader.message);
  }
  return image;
}
#else
bool has_jpeg() { return false; }

Image decode_jpeg(Bytes /*bytes*/, const std::string& where) {
  fail<InvalidArgument>(
      "{}: this Trireme was built without JPEG images: install libjpeg-turbo (Debian: "
      "libjpeg62-turbo-dev) and build it again",
      where);
}
#endif

}  // namespace trireme::data
