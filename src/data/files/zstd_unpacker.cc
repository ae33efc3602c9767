#include "base/error.h"
#include "data/files/unpacker.h"

#ifdef TRIREME_HAS_ZSTD
#include <zstd.h>

#include <array>
#include <new>
#endif

namespace trireme::data {

#ifdef TRIREME_HAS_ZSTD
namespace {

class ZstdUnpacker final : public Unpacker {
 public:
  // Its memory is bounded by zstd's own limit for streams: windows of at most 128 MiB.
  ZstdUnpacker() : stream_(ZSTD_createDStream()) {
    if (stream_ == nullptr) throw std::bad_alloc();
  }
  ~ZstdUnpacker() override { ZSTD_freeDStream(stream_); }
  ZstdUnpacker(const ZstdUnpacker&) = delete;
  ZstdUnpacker& operator=(const ZstdUnpacker&) = delete;

  Progress unpack(Bytes& input, MutableBytes out) override {
    ZSTD_inBuffer in{.src = input.data(), .size = input.size(), .pos = 0};
    ZSTD_outBuffer to{.dst = out.data(), .size = out.size(), .pos = 0};
    const std::size_t left = ZSTD_decompressStream(stream_, &to, &in);
    if (ZSTD_isError(left) != 0) throw Corrupt(ZSTD_getErrorName(left));
    input = input.subspan(in.pos);
    return {.written = to.pos, .ended = left == 0};
  }
  void restart() override { ZSTD_DCtx_reset(stream_, ZSTD_reset_session_only); }

  const char* format() const override { return "zstd"; }
  Bytes magic() const override { return kMagic; }
  std::uint64_t best_ratio() const override { return 32768; }  // a block of 128 KiB of one byte takes 4

 private:
  static constexpr std::array kMagic{std::byte{0x28}, std::byte{0xb5}, std::byte{0x2f}, std::byte{0xfd}};
  ZSTD_DStream* stream_;
};

}  // namespace

bool has_zstd() { return true; }
std::unique_ptr<Unpacker> make_zstd_unpacker() { return std::make_unique<ZstdUnpacker>(); }
#else
bool has_zstd() { return false; }
std::unique_ptr<Unpacker> make_zstd_unpacker() {
  fail<InvalidArgument>(
      "this Trireme was built without zstd: unpack the file, or install libzstd (Debian: "
      "libzstd-dev) and build it again");
}
#endif

}  // namespace trireme::data
