#include "data/r/r_data.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "images.h"
#include "tests/support/expect_fails.h"

namespace trireme::data {
namespace {

/// What R writes in front of a value: XDR, version 2.
const std::string kFront = "X\n" + be32(2) + be32(0x030602) + be32(0x020300);

std::string text(const std::string& value) {
  return be32(0x00040009) + be32(static_cast<std::uint32_t>(value.size())) + value;
}

RValue parse(const std::string& bytes) { return parse_r(as_bytes(bytes), "value"); }

TEST(RData, NumbersAndText) {
  EXPECT_EQ(parse(kFront + be32(13) + be32(2) + be32(7) + be32(0xffffffff)).integers,
            (std::vector<std::int32_t>{7, -1}));
  EXPECT_EQ(parse(kFront + be32(14) + be32(1) + be32(0x3ff80000) + be32(0)).reals, std::vector<double>{1.5});
  EXPECT_EQ(parse(kFront + be32(16) + be32(2) + text("hi") + text("")).strings, (std::vector<std::string>{"hi", ""}));
}

TEST(RData, TruncatedAnywhereIsCorrupt) {
  const std::string whole = kFront + be32(16) + be32(2) + text("hi") + text("there");
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_FAILS(parse(whole.substr(0, size)), Corrupt, "value");
}

TEST(RData, HugeClaimsAreRefused) {
  EXPECT_FAILS(parse(kFront + be32(14) + be32(0x7fffffff)), Corrupt, "value");
  EXPECT_FAILS(parse(kFront + be32(14) + be32(0xffffffff) + be32(0x7fffffff) + be32(0x7fffffff)), Corrupt, "value");
  std::string nested = kFront;
  for (int i = 0; i < 100000; ++i) nested += be32(19) + be32(1);  // lists in lists
  EXPECT_FAILS(parse(nested), Corrupt, "value");
}

TEST(RData, SomethingElseIsRefused) {
  EXPECT_FAILS(parse(""), Corrupt, "value");
  EXPECT_FAILS(parse("A\n1\n"), Corrupt, "value");
  EXPECT_FAILS(load_r("/nowhere/Rdata", "x"), IoError, "/nowhere/Rdata");
}

}  // namespace
}  // namespace trireme::data
