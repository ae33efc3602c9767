#include "observe/text_width.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace trireme::observe {
namespace {

TEST(Printable, KeepsTextAndReplacesTheRest) {
  EXPECT_EQ(printable("loss – ünï 船 🚣"), "loss – ünï 船 🚣");
  EXPECT_EQ(printable("a\tb\r\n\x7f"), "a b   ");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            " 31m")
      << "the one-byte escape of old terminals";
}

TEST(Printable, RefusesWhatIsNotUtf8) {
  EXPECT_EQ(printable("\xff"), "?");
  EXPECT_EQ(printable("\xc0\xaf"), "??") << "overlong";
  EXPECT_EQ(printable("\xe0\x80\xaf"), "???") << "overlong";
  EXPECT_EQ(printable("\xed\xa0\x80"), "???") << "surrogate";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "????") << "beyond Unicode";
  EXPECT_EQ(printable("\xe2\x80"), "??") << "cut short";
}

TEST(ColumnsOf, CountsWideCharactersTwice) {
  EXPECT_EQ(columns_of(""), 0);
  EXPECT_EQ(columns_of("abc–…━"), 6);
  EXPECT_EQ(columns_of("船🚣"), 4);
}

TEST(Fit, CutsAtCharactersWithAnEllipsis) {
  EXPECT_EQ(fit("abc", 3), "abc");
  EXPECT_EQ(fit("abcd", 3), "ab…");
  EXPECT_EQ(fit("船船船", 4), "船…");
  EXPECT_EQ(fit("船", 1), "…");
  EXPECT_EQ(fit("abc", 0), "");
  EXPECT_EQ(fit("abc", -5), "");
}

TEST(Fit, NeverExceedsItsWidthForAnyBytes) {
  RandomStream random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (std::uint64_t i = random.below(40); i > 0; --i) bytes += static_cast<char>(random.below(256));
    const int columns = static_cast<int>(random.below(30));
    EXPECT_LE(columns_of(fit(printable(bytes), columns)), columns);
  }
}

}  // namespace
}  // namespace trireme::observe
