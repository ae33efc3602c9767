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

}  // namespace
}  // namespace trireme::net
