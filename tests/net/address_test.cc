#include "net/address.h"

#include "base/error.h"
#include "tests/support/expect_fails.h"

namespace trireme::net {
namespace {

TEST(Address, ParsesAndPrints) {
  EXPECT_EQ(parse_address("node7:4821").text(), "node7:4821");
  EXPECT_EQ(parse_address("[fe80::1]:80").host, "fe80::1");
  EXPECT_EQ(parse_address("[fe80::1]:80").text(), "[fe80::1]:80");
  EXPECT_EQ(parse_address("h:0").port, 0);
}

TEST(Address, SaysWhatIsWrong) {
  EXPECT_FAILS(parse_address("node7"), InvalidArgument, "'node7'", "host:port");
  EXPECT_FAILS(parse_address(":80"), InvalidArgument, "host:port");
  EXPECT_FAILS(parse_address(""), InvalidArgument, "host:port");
  for (const char* text : {"tcp://node7:4821", "tls://node7:1", "shm://x"}) {
    EXPECT_FAILS(parse_address(text), InvalidArgument, text, "without a scheme");
  }
  for (const char* text : {"h:", "h:x", "h:65536", "h:-1", "h:80 "}) {
    EXPECT_FAILS(parse_address(text), InvalidArgument, "0 to 65535");
  }
}

TEST(Address, Loopback) {
  for (const char* host : {"localhost", "127.0.0.1", "127.8.9.1", "::1"}) EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"0.0.0.0", "10.0.0.1", "node7", "localhost.example.com"}) EXPECT_FALSE(is_loopback(host));
}

TEST(Address, TransportsByName) {
  for (const char* name : {"auto", "shm", "tcp", "tls"}) EXPECT_EQ(to_string(parse_transport(name)), name);
  EXPECT_FAILS(parse_transport("tpc"), InvalidArgument, "'tpc'", "tcp");
}

}  // namespace
}  // namespace trireme::net
