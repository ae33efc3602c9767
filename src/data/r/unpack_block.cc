#include "data/r/unpack_block.h"

#include <zlib.h>

#include <algorithm>

#include "base/error.h"

#ifdef TRIREME_HAS_LZMA
#include <lzma.h>
#endif

namespace trireme::data {
namespace {

constexpr std::uint64_t kMostRatio = 16384;  // beyond what zlib or LZMA pack: a claim of more is not believed

#ifdef TRIREME_HAS_LZMA
void unpack_lzma(Bytes packed, std::string& out, const std::string& where) {
  lzma_options_lzma options{};
  lzma_lzma_preset(&options, 6);  // what R writes with: only its dictionary matters here
  const lzma_filter filters[] = {{.id = LZMA_FILTER_LZMA2, .options = &options},
                                 {.id = LZMA_VLI_UNKNOWN, .options = nullptr}};
  std::size_t in = 0;
  std::size_t written = 0;
  const lzma_ret result =
      lzma_raw_buffer_decode(filters, nullptr, reinterpret_cast<const std::uint8_t*>(packed.data()), &in, packed.size(),
                             reinterpret_cast<std::uint8_t*>(out.data()), &written, out.size());
  if (result != LZMA_OK || written != out.size()) fail<Corrupt>("{}: damaged LZMA data", where);
}
#else
[[noreturn]] void unpack_lzma(Bytes /*packed*/, std::string& /*out*/, const std::string& where) {
  fail<InvalidArgument>(
      "{} is packed with xz, and this Trireme was built without it: install liblzma (Debian: "
      "liblzma-dev) and build it again",
      where);
}
#endif

void unpack_zlib(Bytes packed, std::string& out, const std::string& where) {
  uLongf size = out.size();
  const int result = ::uncompress(reinterpret_cast<Bytef*>(out.data()), &size,
                                  reinterpret_cast<const Bytef*>(packed.data()), packed.size());
  if (result != Z_OK || size != out.size()) fail<Corrupt>("{}: damaged zlib data", where);
}

}  // namespace

std::string unpack_r_block(Bytes block, const std::string& where) {
  if (block.size() < 5) fail<Corrupt>("{}: {} bytes, too few for a block of R data", where, block.size());
  std::uint64_t size = 0;
  for (const std::byte byte : block.first(4)) size = size << 8 | std::to_integer<std::uint64_t>(byte);
  if (size > block.size() * kMostRatio) {
    fail<Corrupt>("{}: a block of {} bytes claims to hold {}", where, block.size(), size);
  }
  std::string out(size, '\0');
  const char kind = static_cast<char>(block[4]);
  if (kind == 'Z') {
    unpack_lzma(block.subspan(5), out, where);
  } else if (kind == '0') {
    if (block.size() - 5 != size) fail<Corrupt>("{}: {} bytes, expected {}", where, block.size() - 5, size);
    std::ranges::copy(as_text(block.subspan(5)), out.begin());
  } else if (kind == '2') {
    fail<Corrupt>("{}: packed with bzip2, which is not read here", where);
  } else {
    unpack_zlib(block.subspan(4), out, where);
  }
  return out;
}

}  // namespace trireme::data
