// Somebody on the way between a client and a service, who does not know the secret.
#include "tests/support/relay.h"

#include "net/secure/frame_mac.h"
#include "tests/net/testing.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"

namespace trireme::net {
namespace {

struct RelayTest : ::testing::Test {
  EchoHandler handler;
  Service service{echo_options(), handler};
  EventLoop loop{"client"};
};

TEST_F(RelayTest, PassesOnWhatItDoesNotUnderstand) {
  const Relay relay(service.address());
  for (const Transport transport : {Transport::kTcp, Transport::kTls}) {
    EXPECT_EQ(ask(*Connection::open(loop, relay.address(), connect_options(transport)), "hello"), "hello");
  }
}

TEST_F(RelayTest, CannotInjectARequest) {
  Relay relay(service.address());
  const auto connection = Connection::open(loop, relay.address(), connect_options(Transport::kTcp));
  EXPECT_EQ(ask(*connection, "hello"), "hello");
  const std::string body = encode_message(Text{"not from the client"});
  const auto header =
      encode_header({.kind = kEcho, .body_bytes = static_cast<std::uint32_t>(body.size()), .request = 99});
  relay.inject(std::string(as_text(header)) + body + std::string(sizeof(FrameTag), 'x'));
  EXPECT_TRUE(eventually([&] { return connection->closed() && handler.disconnects == 1; }));
  EXPECT_EQ(handler.requests, 1);
}

TEST_F(RelayTest, CannotPassAHandshakeOnToAnotherService) {
  EchoHandler other_handler;
  const Service other(echo_options(), other_handler);
  const Relay relay(other.address());
  Address address = relay.address();
  address.identity = service.address().identity;
  for (const Transport transport : {Transport::kTcp, Transport::kTls}) {
    EXPECT_FAILS(Connection::open(loop, address, connect_options(transport)), PeerLost, "another process listens");
  }
  EXPECT_EQ(other_handler.disconnects, 0);
}

TEST_F(RelayTest, CannotPassAHandshakeOnToAServiceOfAnotherRole) {
  auto options = echo_options();
  options.listener.role = "master";
  const Service master(options, handler);
  Address address = master.address();
  address.identity.clear();  // as somebody types it
  auto wanted = connect_options(Transport::kTcp);
  wanted.role = "server";
  EXPECT_FAILS(Connection::open(loop, address, wanted), Unauthenticated, "no server");
  wanted.role = "master";
  EXPECT_EQ(ask(*Connection::open(loop, address, wanted), "hello"), "hello");
}

TEST(FrameMac, TellsApartFramesByContentOrderAndKey) {
  const auto tags = [](const Digest& key, std::vector<std::string> frames) {
    FrameMac mac(key);
    std::vector<FrameTag> all;
    for (const std::string& frame : frames) all.push_back(mac.next(std::array{as_bytes(frame)}));
    return all;
  };
  const Digest key{std::byte{1}};
  EXPECT_EQ(tags(key, {"a", "b"}), tags(key, {"a", "b"}));
  EXPECT_NE(tags(key, {"a"}), tags(key, {"b"}));
  EXPECT_NE(tags(key, {"a"}), tags(Digest{std::byte{2}}, {"a"}));
  EXPECT_NE(tags(key, {"a", "a"})[0], tags(key, {"a", "a"})[1]) << "a frame that is repeated";
}

// ---- Streams without frames.

/// All records of these pieces, as they travel.
std::string records_of(const Digest& key, const std::vector<std::string>& pieces) {
  RecordWriter writer(key);
  std::string wire;
  for (const std::string& piece : pieces) {
    for (Bytes left = as_bytes(piece); !left.empty();) {
      writer.begin(left);
      const Bytes some = writer.unsent().first(std::min<std::size_t>(writer.unsent().size(), 1000));
      wire += as_text(some);
      left = left.subspan(writer.sent(some.size()));
    }
  }
  return wire;
}

/// What comes out if the wire brings `at_once` bytes at a time. Throws as the reader.
std::string read_records(const Digest& key, std::string_view wire, std::size_t at_once) {
  RecordReader reader(key);
  std::string content;
  std::array<std::byte, 777> out;
  for (;;) {
    while (const std::size_t taken = reader.take(out)) content += as_text(Bytes(out).first(taken));
    if (wire.empty()) return content;
    const MutableBytes room = reader.room();
    const std::size_t count = std::min({at_once, wire.size(), room.size()});
    std::ranges::copy(as_bytes(wire.substr(0, count)), room.begin());
    reader.arrived(count);
    wire.remove_prefix(count);
  }
}

TEST(RecordMac, CarriesBytesHoweverTheyArrive) {
  std::string large(3 * kMostRecord + 17, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 131 >> 3);
  const std::vector<std::string> pieces{"a", large, "bc", std::string(kMostRecord, 'x')};
  const Digest key{std::byte{1}};
  const std::string wire = records_of(key, pieces);
  for (const std::size_t at_once : {1, 19, 1000, 70'000, 1'000'000}) {
    EXPECT_EQ(read_records(key, wire, at_once), pieces[0] + pieces[1] + pieces[2] + pieces[3]) << at_once;
  }
}

TEST(RecordMac, WhatWasChangedRepeatedOrLeftOutIsNotDelivered) {
  const Digest key{std::byte{1}};
  const std::string first = records_of(key, {"first"});
  const std::string both = records_of(key, {"first", "second"});
  for (std::size_t byte = 0; byte < first.size(); ++byte) {
    std::string changed = both;
    changed[byte] = static_cast<char>(changed[byte] ^ 4);
    try {
      EXPECT_EQ(read_records(key, changed, 1000), "") << "a longer record: it waits for the rest, and delivers nothing";
      EXPECT_TRUE(byte > 0 && byte < 4) << byte;
    } catch (const Corrupt& problem) {
      EXPECT_THAT(problem.what(), ::testing::HasSubstr("on "));
    }
  }
  EXPECT_FAILS(read_records(key, first + first, 1000), Corrupt, "tag");              // repeated
  EXPECT_FAILS(read_records(key, both.substr(first.size()), 1000), Corrupt, "tag");  // left out
  EXPECT_FAILS(read_records(Digest{std::byte{2}}, both, 1000), Corrupt, "tag");      // of another connection
  EXPECT_EQ(read_records(key, both.substr(0, both.size() - 1), 1000), "first") << "not before its tag is there";
}

}  // namespace
}  // namespace trireme::net
