#include "base/base64.h"

#include "base/error.h"
#include "tests/support/expect_fails.h"

namespace trireme {
namespace {

TEST(Base64, MatchesTheVectorsOfRfc4648) {  // RFC 4648, section 10
  const std::pair<std::string, std::string> cases[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(base64_encode(bytes), text);
    EXPECT_EQ(base64_decode(text), bytes);
  }
}

TEST(Base64, RoundTripsAnyBytes) {
  std::string bytes;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(base64_decode(base64_encode(bytes)), bytes);
    bytes += static_cast<char>(i * 37);
  }
}

TEST(Base64, RefusesOtherText) {
  for (const char* text :
       {"a", "ab", "abc", "Zg=", "====", "Zg==Zg==", "Z=g=", "Zm9*", " Zm9", "Zm9v\nZm9", "\xff\xff\xff\xff"}) {
    EXPECT_THROW(base64_decode(text), Corrupt) << text;
  }
}

}  // namespace
}  // namespace trireme
