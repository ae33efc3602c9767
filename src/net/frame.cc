#include "net/frame.h"

#include <bit>

#include "base/error.h"
#include "base/hash.h"

namespace trireme::net {

static_assert(std::endian::native == std::endian::little, "frames are little-endian and copied as they are");

std::array<std::byte, kHeaderBytes> encode_header(const FrameHeader& header) {
  std::array<std::byte, kHeaderBytes> bytes{};
  const MutableBytes out(bytes);
  store_le(out.subspan(0), kMagic);
  store_le(out.subspan(4), kProtocolVersion);
  store_le(out.subspan(6), header.kind);
  store_le(out.subspan(8), header.flags);
  store_le(out.subspan(12), header.body_bytes);
  store_le(out.subspan(16), header.view);
  store_le(out.subspan(24), header.request);
  store_le(out.subspan(32), header.payload_bytes);
  store_le(out.subspan(40), crc32c(out.first(40)));
  return bytes;
}

FrameHeader decode_header(std::span<const std::byte, kHeaderBytes> bytes, const FrameLimits& limits) {
  const Bytes in(bytes);
  if (load_le<std::uint32_t>(in) != kMagic) {
    fail<Corrupt>("not a Trireme frame: it starts with {:#010x}, expected {:#010x}", load_le<std::uint32_t>(in),
                  kMagic);
  }
  if (const auto version = load_le<std::uint16_t>(in.subspan(4)); version != kProtocolVersion) {
    fail<Unauthenticated>("the peer speaks protocol version {}, this process {}: use one build of Trireme everywhere",
                          version, kProtocolVersion);
  }
  if (load_le<std::uint32_t>(in.subspan(40)) != crc32c(in.first(40))) {
    fail<Corrupt>("the header of a frame is damaged: its checksum does not match");
  }
  const FrameHeader header{.kind = load_le<std::uint16_t>(in.subspan(6)),
                           .flags = load_le<std::uint16_t>(in.subspan(8)),
                           .body_bytes = load_le<std::uint32_t>(in.subspan(12)),
                           .view = load_le<std::uint64_t>(in.subspan(16)),
                           .request = load_le<std::uint64_t>(in.subspan(24)),
                           .payload_bytes = load_le<std::uint64_t>(in.subspan(32))};
  if (header.body_bytes > limits.body_bytes) {
    fail<Corrupt>("a frame claims a body of {} bytes; at most {} are accepted", header.body_bytes, limits.body_bytes);
  }
  if (header.payload_bytes > limits.payload_bytes) {
    fail<Corrupt>("a frame claims a payload of {} bytes; at most {} are accepted", header.payload_bytes,
                  limits.payload_bytes);
  }
  return header;
}

}  // namespace trireme::net
