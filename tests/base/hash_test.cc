#include "base/hash.h"

#include <gmock/gmock.h>

namespace trireme {
namespace {

std::string sha256(std::string_view text) {
  Sha256 hash;
  hash.add(as_bytes(text));
  return hash.hex();
}

std::string hex(const Digest& digest) {
  std::string text;
  for (const std::byte byte : digest) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

TEST(Sha256, KnownVectors) {  // FIPS 180-4 examples
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, PiecesGiveTheHashOfTheWhole) {
  Sha256 hash;
  hash.add(as_bytes("a"));
  hash.add({});
  hash.add(as_bytes("bc"));
  EXPECT_EQ(hash.hex(), sha256("abc"));
}

TEST(HmacSha256, KnownVectors) {  // RFC 4231, cases 1, 2 and 6
  EXPECT_EQ(hex(hmac_sha256(as_bytes(std::string(20, '\x0b')), as_bytes("Hi There"))),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(hmac_sha256(as_bytes("Jefe"), as_bytes("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(hmac_sha256(as_bytes(std::string(131, '\xaa')),
                            as_bytes("Test Using Larger Than Block-Size Key - Hash Key First"))),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(HmacSha256, DigestsCompare) {
  const Digest digest = hmac_sha256(as_bytes("key"), as_bytes("message"));
  Digest other = digest;
  EXPECT_TRUE(equal_digests(digest, other));
  other.back() ^= std::byte{1};
  EXPECT_FALSE(equal_digests(digest, other));
}

TEST(Crc32c, KnownVectors) {  // RFC 3720, B.4, and the usual check value
  EXPECT_EQ(crc32c({}), 0u);
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c(as_bytes(std::string(32, '\0'))), 0x8A9136AAu);
  EXPECT_EQ(crc32c(as_bytes(std::string(32, '\xff'))), 0x62A8AB43u);
  std::string ascending(32, '\0');
  for (std::size_t i = 0; i < ascending.size(); ++i) ascending[i] = static_cast<char>(i);
  EXPECT_EQ(crc32c(as_bytes(ascending)), 0x46DD794Eu);
}

// Long ones are computed in several places at once, and put together.
TEST(Crc32c, IsThatOfTheDefinitionForEveryLength) {
  std::string text;
  std::uint32_t expected = ~0u;
  for (std::size_t size = 0; size <= 7000; ++size) {
    if (size % 13 == 0 || size % 64 == 0) {
      EXPECT_EQ(crc32c(as_bytes(text)), ~expected) << size;
    }
    const auto byte = static_cast<unsigned char>(size * 131 + size / 7);
    text += static_cast<char>(byte);
    expected ^= byte;
    for (int bit = 0; bit < 8; ++bit) expected = (expected >> 1) ^ ((expected & 1) ? 0x82F63B78u : 0u);
  }
}

TEST(Crc32c, ContinuesAtAnyCut) {
  const std::string text = "the quick brown fox jumps over the lazy dog";
  const std::uint32_t whole = crc32c(as_bytes(text));
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const std::string_view view = text;
    EXPECT_EQ(crc32c(as_bytes(view.substr(cut)), crc32c(as_bytes(view.substr(0, cut)))), whole) << "cut at " << cut;
  }
}

}  // namespace
}  // namespace trireme
