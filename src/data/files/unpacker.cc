#include "data/files/unpacker.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <new>

#include "base/error.h"

namespace trireme::data {
namespace {

constexpr std::array kGzipMagic{std::byte{0x1f}, std::byte{0x8b}};
constexpr std::array kZstdMagic{std::byte{0x28}, std::byte{0xb5}, std::byte{0x2f}, std::byte{0xfd}};

class GzipUnpacker final : public Unpacker {
 public:
  GzipUnpacker() {
    constexpr int kGzipOnly = 15 + 16;  // largest window, gzip wrapper
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~GzipUnpacker() override { inflateEnd(&stream_); }

  Progress unpack(Bytes& input, MutableBytes out) override {
    // zlib counts in 32 bits and takes its input as non-const, though it only reads it.
    const std::size_t room = std::min<std::size_t>(out.size(), 1u << 30);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input.data()));
    stream_.avail_in = static_cast<uInt>(input.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(room);
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    input = input.last(stream_.avail_in);
    if (result != Z_OK && result != Z_STREAM_END) throw Corrupt(stream_.msg != nullptr ? stream_.msg : "no progress");
    return {.written = room - stream_.avail_out, .ended = result == Z_STREAM_END};
  }
  void restart() override { inflateReset(&stream_); }

  const char* format() const override { return "gzip"; }
  Bytes magic() const override { return kGzipMagic; }
  std::uint64_t best_ratio() const override { return 1032; }  // zlib's technical notes: the limit of the format

 private:
  z_stream stream_{};
};

bool begins_with(Bytes bytes, Bytes magic) {
  return bytes.size() >= magic.size() && std::ranges::equal(bytes.first(magic.size()), magic);
}

}  // namespace

std::unique_ptr<Unpacker> make_gzip_unpacker() { return std::make_unique<GzipUnpacker>(); }

std::unique_ptr<Unpacker> make_unpacker(Bytes first) {
  if (begins_with(first, kGzipMagic)) return make_gzip_unpacker();
  if (begins_with(first, kZstdMagic)) return make_zstd_unpacker();
  return nullptr;
}

}  // namespace trireme::data
