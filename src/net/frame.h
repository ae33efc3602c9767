#pragma once

#include <array>
#include <cstdint>

#include "trireme/types.h"

#include "base/bytes.h"

namespace trireme::net {

// One frame format for every transport: a fixed little-endian header, a small MessagePack body, then raw tensor bytes.
//
//   offset  0  u32  magic "TRIR"        16  u64  view
//           4  u16  protocol version    24  u64  request id (a reply carries its request's)
//           6  u16  kind                32  u64  payload bytes
//           8  u16  flags               40  u32  CRC-32C of the 40 bytes before
//          10  u16  zero                44  u32  zero
//          12  u32  body bytes
//
// Over TCP in the clear, 16 bytes that authenticate the frame follow it (secure/frame_mac.h).

inline constexpr std::uint32_t kMagic = 0x52495254;  // "TRIR"
inline constexpr std::uint16_t kProtocolVersion = 2;
inline constexpr std::size_t kHeaderBytes = 48;

enum FrameFlags : std::uint16_t {
  kReply = 1,  ///< answers the request of the same id
  kError = 2,  ///< a reply whose body is an ErrorBody
};

struct FrameHeader {
  std::uint16_t kind = 0;  ///< what is asked; each service numbers its own
  std::uint16_t flags = 0;
  std::uint32_t body_bytes = 0;
  View view = 0;
  std::uint64_t request = 0;
  std::uint64_t payload_bytes = 0;

  bool operator==(const FrameHeader&) const = default;
};

/// What a receiver accepts; checked before anything is allocated.
struct FrameLimits {
  std::uint32_t body_bytes = 4u << 20;
  std::uint64_t payload_bytes = 64u << 20;
};

std::array<std::byte, kHeaderBytes> encode_header(const FrameHeader& header);

/// Throws Corrupt (not a frame, damaged, beyond `limits`) or Unauthenticated (another protocol version).
FrameHeader decode_header(std::span<const std::byte, kHeaderBytes> bytes, const FrameLimits& limits);

}  // namespace trireme::net
