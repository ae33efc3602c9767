#include "net/frame.h"

#include "base/error.h"
#include "base/hash.h"
#include "tests/support/expect_fails.h"

namespace trireme::net {
namespace {

const FrameHeader kSample{.kind = 7,
                          .flags = kReply | kError,
                          .body_bytes = 12345,
                          .view = 0x0102030405060708,
                          .request = 0xfffefdfcfbfaf9f8,
                          .payload_bytes = 1u << 20};

/// Writes `value` at `offset` and makes the checksum right again.
template <typename T>
std::array<std::byte, kHeaderBytes> forged(std::size_t offset, T value) {
  auto bytes = encode_header(kSample);
  const MutableBytes out(bytes);
  store_le(out.subspan(offset), value);
  store_le(out.subspan(40), crc32c(out.first(40)));
  return bytes;
}

TEST(Frame, HeaderSurvivesTheRoundTrip) {
  EXPECT_EQ(decode_header(encode_header(kSample), {}), kSample);
  EXPECT_EQ(decode_header(encode_header({}), {}), FrameHeader{});
}

TEST(Frame, LayoutIsAsDocumented) {
  const auto bytes = encode_header(kSample);
  const Bytes in(bytes);
  EXPECT_EQ(as_text(in.first(4)), "TRIR");
  EXPECT_EQ(load_le<std::uint16_t>(in.subspan(4)), kProtocolVersion);
  EXPECT_EQ(load_le<std::uint16_t>(in.subspan(6)), 7);
  EXPECT_EQ(load_le<std::uint32_t>(in.subspan(12)), 12345u);
  EXPECT_EQ(load_le<std::uint64_t>(in.subspan(16)), kSample.view);
  EXPECT_EQ(load_le<std::uint64_t>(in.subspan(24)), kSample.request);
  EXPECT_EQ(load_le<std::uint64_t>(in.subspan(32)), kSample.payload_bytes);
}

TEST(Frame, EveryDamagedBitIsNoticed) {
  for (std::size_t bit = 0; bit < 44 * 8; ++bit) {
    auto bytes = encode_header(kSample);
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_THROW(decode_header(bytes, {}), Error) << "bit " << bit;
  }
}

TEST(Frame, RefusesBytesThatAreNotAFrame) {
  EXPECT_FAILS(decode_header(forged(0, std::uint32_t{0x20544547}), {}), Corrupt, "not a Trireme frame", "0x20544547");
  EXPECT_FAILS(decode_header(std::array<std::byte, kHeaderBytes>{}, {}), Corrupt, "not a Trireme frame");
}

TEST(Frame, RefusesAnotherVersion) {
  EXPECT_FAILS(decode_header(forged(4, std::uint16_t{99}), {}), Unauthenticated, "version 99", "one build of Trireme");
}

TEST(Frame, RefusesTooLargeSizes) {
  EXPECT_FAILS(decode_header(forged(12, std::uint32_t{4u << 20} + 1), {}), Corrupt, "4194305", "at most 4194304");
  EXPECT_FAILS(decode_header(forged(32, std::uint64_t{8} << 30), {}), Corrupt, "8589934592");
  EXPECT_FAILS(decode_header(forged(32, ~std::uint64_t{0}), {}), Corrupt, "payload");
  EXPECT_NO_THROW(decode_header(forged(32, std::uint64_t{64} << 20), {}));
}

}  // namespace
}  // namespace trireme::net
