#include "net/message_codec.h"

#include "base/random.h"
#include "tests/support/expect_fails.h"

namespace trireme::net {
namespace {

struct Sample {
  int number = 0;
  std::string text;
  std::vector<double> list;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Sample, number, text, list)
};

TEST(Body, StructSurvivesTheRoundTrip) {
  const std::string bytes = encode_message(Sample{-7, "grüße", {0.5, 1e300, -0.0}});
  const auto back = decode_message<Sample>(as_bytes(bytes));
  EXPECT_EQ(back.number, -7);
  EXPECT_EQ(back.text, "grüße");
  EXPECT_EQ(back.list, (std::vector{0.5, 1e300, -0.0}));
}

TEST(Body, NamesTheFieldThatIsMissingOrOfAnotherType) {
  EXPECT_FAILS(decode_message<Sample>(as_bytes(encode_json({{"number", 1}, {"text", ""}}))), Corrupt, "list");
  EXPECT_FAILS(decode_message<Sample>(as_bytes(encode_json({{"number", 1}, {"text", 5}, {"list", {}}}))), Corrupt,
               "expected fields");
  EXPECT_FAILS(decode_message<Sample>(as_bytes(encode_json(3))), Corrupt, "expected fields");
}

TEST(Body, RefusesTruncatedTrailingAndEmpty) {
  const std::string whole = encode_message(Sample{1, "text", {1, 2, 3}});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(decode_json(as_bytes(whole).first(size)), Corrupt) << size;
  }
  EXPECT_THROW(decode_json(as_bytes(whole + "\x01")), Corrupt);
}

TEST(Body, RefusesNestingThatWouldExhaustTheStack) {
  EXPECT_THROW(decode_json(as_bytes(std::string(4u << 20, '\x91'))), Corrupt);  // [[[[...
  std::string maps;
  for (int i = 0; i < 100'000; ++i) maps += "\x81\xa1k";  // {"k": {"k": ...
  EXPECT_THROW(decode_json(as_bytes(maps)), Corrupt);
  EXPECT_NO_THROW(decode_json(as_bytes(std::string(15, '\x91') + "\x01")));
}

TEST(Body, ClaimsOfHugeSizeAllocateNothing) {
  const std::string_view claims[] = {"\xdd\xff\xff\xff\xff",   // array of 2^32 - 1
                                     "\xdf\xff\xff\xff\xff",   // map
                                     "\xdb\xff\xff\xff\xffx",  // string
                                     "\xc6\xff\xff\xff\xffx"};
  for (const auto claim : claims) EXPECT_THROW(decode_json(as_bytes(claim)), Corrupt);
}

TEST(Body, GarbageIsDecodedOrThrows) {
  RandomStream random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string garbage(random.next() % 64, '\0');
    for (char& byte : garbage) byte = static_cast<char>(random.next());
    try {
      decode_message<Sample>(as_bytes(garbage));
    } catch (const Corrupt&) {
    }
  }
}

template <typename E>
void expect_error_survives() {
  try {
    throw_error(describe_error(E("what happened")));
    FAIL();
  } catch (const E& error) {
    EXPECT_STREQ(error.what(), "what happened");
  }
}

TEST(Body, ErrorsKeepTheirType) {
  expect_error_survives<PeerLost>();
  expect_error_survives<Timeout>();
  expect_error_survives<StaleView>();
  expect_error_survives<InvalidArgument>();
  expect_error_survives<Corrupt>();
  expect_error_survives<Unauthenticated>();
  expect_error_survives<IoError>();
  EXPECT_FAILS(throw_error(describe_error(std::runtime_error("a bug"))), Error, "a bug");
  EXPECT_FAILS(throw_error({"NoSuchType", "text"}), Error, "text");
}

}  // namespace
}  // namespace trireme::net
