#include "base/bytes.h"

#include <array>

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Bytes, TextRoundTrips) {
  const std::string_view text("a\0b", 3);
  EXPECT_EQ(as_bytes(text).size(), 3u);
  EXPECT_EQ(as_text(as_bytes(text)), text);
}

TEST(Bytes, IntegersAreLittleEndianAndNeedNoAlignment) {
  std::array<std::byte, 9> buffer{};
  store_le<std::uint32_t>(MutableBytes(buffer).subspan(1), 0x01020304u);
  EXPECT_EQ(buffer[1], std::byte{4});
  EXPECT_EQ(buffer[4], std::byte{1});
  EXPECT_EQ(load_le<std::uint32_t>(Bytes(buffer).subspan(1)), 0x01020304u);
}

}  // namespace
}  // namespace trireme
