// The header of a frame from a peer: 48 bytes, as they are and with the checksum put right.
#include <algorithm>

#include "base/hash.h"
#include "net/frame.h"
#include "tests/fuzz/fuzz.h"

namespace trireme::net {
namespace {

void decode(std::span<const std::byte, kHeaderBytes> bytes) {
  fuzz::returns_or_refuses([&] {
    const FrameLimits limits;
    const FrameHeader header = decode_header(bytes, limits);
    fuzz::require(header.body_bytes <= limits.body_bytes && header.payload_bytes <= limits.payload_bytes,
                  "a header beyond the limits was accepted");
    fuzz::require(decode_header(encode_header(header), limits) == header, "a header is not what it was once encoded");
  });
}

}  // namespace
}  // namespace trireme::net

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  std::array<std::byte, net::kHeaderBytes> bytes{};
  std::ranges::copy(as_bytes(fuzz::text_of(data, std::min(size, bytes.size()))), bytes.begin());
  net::decode(bytes);
  store_le(MutableBytes(bytes).subspan(40), crc32c(Bytes(bytes).first(40)));
  net::decode(bytes);
  return 0;
}
