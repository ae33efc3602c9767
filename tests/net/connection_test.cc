// Requests and answers over each transport, and every way a connection is refused politely.
#include "net/connection.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>
#include <future>
#include <thread>

#include "tests/net/testing.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"

namespace trireme::net {
namespace {

struct ConnectionTest : ::testing::TestWithParam<Transport> {
  EchoHandler handler;
  Service service{echo_options(), handler};
  EventLoop loop{"client"};

  std::shared_ptr<Connection> connect() {
    return Connection::open(loop, service.address(), connect_options(GetParam()));
  }
};

INSTANTIATE_TEST_SUITE_P(Over, ConnectionTest, ::testing::Values(Transport::kShm, Transport::kTcp, Transport::kTls),
                         [](const auto& test) { return to_string(test.param); });

TEST_P(ConnectionTest, AsksAndGetsTheAnswer) {
  const auto connection = connect();
  EXPECT_THAT(connection->peer(), ::testing::HasSubstr("the echo (" + to_string(GetParam())));
  EXPECT_EQ(connection->channel().shares_memory(), GetParam() == Transport::kShm);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(ask(*connection, std::to_string(i)), std::to_string(i));
}

TEST_P(ConnectionTest, PayloadsGoOutInPartsAndComeBackInPlace) {
  const auto connection = connect();
  std::vector<float> out(40'000);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(i);
  std::vector<float> in(out.size(), -1);
  const auto half = std::span(out).size() / 2;
  const auto pending = connection->send(
      {.kind = kEcho,
       .body = encode_message(Text{"floats"}),
       .payload = {std::as_bytes(std::span(out).first(half)), {}, std::as_bytes(std::span(out).subspan(half))},
       .sinks = {std::as_writable_bytes(std::span(in).first(7)), std::as_writable_bytes(std::span(in).subspan(7))}});
  const InFrame reply = connection->wait(pending, Deadline::in(10s), "floats");
  EXPECT_EQ(reply.payload, nullptr);
  EXPECT_EQ(in, out);
}

TEST_P(ConnectionTest, LargePayloads) {
  const auto connection = connect();
  std::vector<std::byte> out(20u << 20);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(i * i >> 3);
  const auto send = [&] { return connection->send({.kind = kEcho, .body = encode_message(Text{}), .payload = {out}}); };
  if (GetParam() == Transport::kShm) {  // these go through shared segments
    EXPECT_FAILS(send(), InvalidArgument, "shared segment");
  } else {
    const InFrame reply = connection->wait(send(), Deadline::in(30s), "an echo");
    EXPECT_TRUE(std::ranges::equal(reply.payload_bytes(), out));
  }
  EXPECT_EQ(ask(*connection, "still here"), "still here");
}

TEST_P(ConnectionTest, ErrorsOfTheServiceKeepTheirType) {
  const auto connection = connect();
  EXPECT_FAILS(connection->call<Text>(kFail, 0, Text{}, Deadline::in(10s), "x"), InvalidArgument, "cannot be done");
  EXPECT_FAILS(connection->call<Text>(77, 0, Text{}, Deadline::in(10s), "x"), InvalidArgument, "kind 77");
  EXPECT_FAILS(connection->call<nlohmann::json>(kEcho, 0, nlohmann::json(), Deadline::in(10s), "x").at("no"),
               nlohmann::json::exception, "");
  EXPECT_EQ(ask(*connection, "still here"), "still here");
}

TEST_P(ConnectionTest, AnAnswerOfAnotherSizeThanAskedForIsRefused) {
  const auto connection = connect();
  std::vector<std::byte> sink(100);
  const auto pending = connection->send({.kind = kShortPayload, .body = encode_message(Text{}), .sinks = {sink}});
  EXPECT_FAILS(connection->wait(pending, Deadline::in(10s), "x"), PeerLost, "0 bytes where 100 were asked for");
}

TEST_P(ConnectionTest, TimeoutNamesTheSilentPeer) {
  const auto connection = connect();
  expect_ends_within(kPatience, [&] {
    EXPECT_FAILS(connection->call<Text>(kSilence, 0, Text{}, Deadline::in(200ms), "a question"), Timeout, "the echo",
                 "a question", "0.2 s");
  });
  EXPECT_TRUE(connection->closed());
  EXPECT_FAILS(ask(*connection, "more"), PeerLost, "the echo", "closed by this side");
}

TEST_P(ConnectionTest, ManyRequestsOfManyThreads) {
  const auto connection = connect();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < 20; ++round) {
        std::vector<std::pair<std::string, std::shared_ptr<PendingReply>>> sent;
        for (int i = 0; i < 50; ++i) {
          std::string text = std::to_string(thread * 1000 + i) + std::string(static_cast<std::size_t>(i) * 20, '.');
          sent.emplace_back(text, connection->send({.kind = kEcho, .body = encode_message(Text{text})}));
        }
        for (const auto& [text, pending] : sent) {
          const InFrame reply = connection->wait(pending, Deadline::in(30s), "an echo");
          if (decode_message<Text>(reply.body_bytes()).text != text) ADD_FAILURE() << text;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_P(ConnectionTest, SendsMoreThanTheRingHolds) {
  const auto connection = connect();
  const std::string text(60'000, 'x');
  std::vector<std::shared_ptr<PendingReply>> sent;
  for (int i = 0; i < 60; ++i) sent.push_back(connection->send({.kind = kEcho, .body = encode_message(Text{text})}));
  const Deadline deadline = Deadline::in(10s);
  for (const auto& pending : sent) {
    EXPECT_EQ(decode_message<Text>(connection->wait(pending, deadline, "x").body_bytes()).text, text);
  }
}

TEST_P(ConnectionTest, ClosingEndsTheWaitOfOtherThreads) {
  const auto connection = connect();
  std::atomic<bool> asked = false;
  std::thread waiter([&] {
    const auto pending = connection->send({.kind = kSilence, .body = encode_message(Text{})});
    asked = true;
    EXPECT_FAILS(connection->wait(pending, Deadline::in(30s), "x"), PeerLost, "closed by this side");
  });
  ASSERT_TRUE(eventually([&] { return asked.load(); }));
  connection->close();
  waiter.join();
}

TEST_P(ConnectionTest, EndOfTheServiceThrowsPeerLost) {
  auto other = std::make_unique<Service>(echo_options(), handler);
  const auto connection = Connection::open(loop, other->address(), connect_options(GetParam()));
  ask(*connection, "hello");
  const auto pending = connection->send({.kind = kSilence, .body = encode_message(Text{})});
  other.reset();
  EXPECT_FAILS(connection->wait(pending, Deadline::in(10s), "x"), PeerLost, "the echo");
}

TEST_P(ConnectionTest, AWrongSecretIsRefusedAndTheServiceLivesOn) {
  for (int i = 0; i < 3; ++i) {
    auto options = connect_options(GetParam());
    options.secret = "another secret";
    EXPECT_FAILS(Connection::open(loop, service.address(), options), Unauthenticated, "the echo", "secret");
  }
  const auto connection = connect();
  EXPECT_EQ(ask(*connection, "hello"), "hello");
  EXPECT_EQ(handler.disconnects, 0);
}

TEST_P(ConnectionTest, FiftyCyclesLeaveNoDescriptor) {
  ask(*connect(), "warm up");
  ASSERT_TRUE(eventually([&] { return handler.disconnects >= 1; }));
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 50; ++i) ask(*connect(), "hello");
  // Both sides release their ends on their own threads.
  const auto all_gone = [&] { return open_descriptors() <= before && handler.disconnects >= 51; };
  EXPECT_TRUE(eventually(all_gone));
  EXPECT_LE(open_descriptors(), before);
  EXPECT_EQ(handler.disconnects, 51);
}

TEST(Connection, WaitsForAServiceThatIsNotThereYet) {
  EchoHandler handler;
  EventLoop loop("client");
  Address address;
  { address = Service(echo_options(), handler).address(); }
  address.unix_name.clear();
  address.identity.clear();  // another service will be there
  std::unique_ptr<Service> late;
  std::thread starter([&] {
    auto options = echo_options();
    options.listener.port = address.port;
    late = std::make_unique<Service>(options, handler);
  });
  EXPECT_EQ(ask(*Connection::open(loop, address, connect_options(Transport::kTcp)), "hello"), "hello");
  starter.join();
}

TEST(Connection, PeerLostNamesTheAddressWithoutAListener) {
  EchoHandler handler;
  EventLoop loop("client");
  const Address address = Service(echo_options(), handler).address();
  std::vector<std::future<void>> attempts;  // at the same time, because each takes all the time it has
  for (const Transport transport : {Transport::kShm, Transport::kTcp, Transport::kTls, Transport::kAuto}) {
    attempts.push_back(std::async(std::launch::async, [&, transport] {
      EXPECT_FAILS(Connection::open(loop, address, connect_options(transport, 2s)), PeerLost, "cannot reach the echo",
                   address.text(), "refused");
    }));
  }
  for (auto& attempt : attempts) attempt.get();
}

TEST(Connection, AutoPrefersSharedMemory) {
  EchoHandler handler;
  EventLoop loop("client");
  const Service service(echo_options(), handler);
  EXPECT_TRUE(Connection::open(loop, service.address(), connect_options(Transport::kAuto))->channel().shares_memory());
  Address remote = service.address();
  remote.host_id = "another machine";
  const auto connection = Connection::open(loop, remote, connect_options(Transport::kAuto));
  EXPECT_THAT(connection->peer(), ::testing::HasSubstr("tcp"));
  EXPECT_FAILS(Connection::open(loop, remote, connect_options(Transport::kShm)), InvalidArgument, "another host");
  remote = service.address();
  remote.unix_name = "trireme-nobody";  // such as in another container: falls back
  EXPECT_EQ(ask(*Connection::open(loop, remote, connect_options(Transport::kAuto)), "hello"), "hello");
}

/// Moves this thread, and those it starts, to a network of its own in which it has an address besides loopback.
/// False where the system does not permit that.
bool enter_own_network(const char* address) {
  if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) return false;
  std::strcpy(request.ifr_name, "lo:1");
  sockaddr_in own{};
  own.sin_family = AF_INET;
  ::inet_pton(AF_INET, address, &own.sin_addr);
  std::memcpy(&request.ifr_addr, &own, sizeof(own));
  return ::ioctl(socket.get(), SIOCSIFADDR, &request) == 0;
}

TEST(Connection, PlainConnectionsBetweenHostsMustBeAllowed) {
  const std::string host = "10.99.0.1";
  if (!enter_own_network(host.c_str())) GTEST_SKIP() << "network namespaces are not permitted here";
  EchoHandler handler;
  EventLoop loop("client");
  auto options = echo_options();
  options.listener.host = "0.0.0.0";
  options.listener.advertise = host;
  options.listener.share_memory = false;
  {
    const Service service(options, handler);
    EXPECT_EQ(service.address().host, host);
    const auto connection = Connection::open(loop, service.address(), connect_options(Transport::kAuto));
    EXPECT_THAT(connection->peer(), ::testing::HasSubstr("tls"));
    EXPECT_EQ(ask(*connection, "hello"), "hello");
    EXPECT_FAILS(Connection::open(loop, service.address(), connect_options(Transport::kTcp)), Unauthenticated,
                 "TLS only", "--allow-plain");
  }
  options.listener.allow_plain = true;
  const Service trusting(options, handler);
  EXPECT_EQ(ask(*Connection::open(loop, trusting.address(), connect_options(Transport::kTcp)), "hello"), "hello");
}

// More peers than may be in their handshake at a time, all at once: as after a change of view in a large job.
TEST_P(ConnectionTest, ThreeHundredPeersAtOnceAreAllLetIn) {
  auto options = echo_options();
  options.listener.unproven.places = 8;
  const Service busy(options, handler);
  std::vector<std::future<std::string>> peers;
  for (int i = 0; i < 300; ++i) {
    peers.push_back(std::async(std::launch::async, [&] {
      return ask(*Connection::open(loop, busy.address(), connect_options(GetParam(), kPatience)), "hello", kPatience);
    }));
  }
  for (auto& peer : peers) EXPECT_EQ(peer.get(), "hello");
}

/// Accepts connections and ends the first few of them in the middle of the handshake; then there is a service.
TEST(Connection, ACutHandshakeIsTriedAgain) {
  for (const Transport transport : {Transport::kTcp, Transport::kTls}) {
    EchoHandler handler;
    EventLoop loop("client");
    asio::io_context context;
    tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
    const std::uint16_t port = acceptor.local_endpoint().port();
    auto asking = std::async(std::launch::async, [&] {
      const Address address{.host = "127.0.0.1", .port = port};
      return ask(*Connection::open(loop, address, connect_options(transport, kPatience)), "hello", kPatience);
    });
    for (int i = 0; i < 3; ++i) {
      tcp::socket cut = acceptor.accept();
      std::array<char, 40> begun;
      asio::read(cut, asio::buffer(begun));
    }
    acceptor.close();
    auto options = echo_options();
    options.listener.port = port;
    const Service service(options, handler);
    EXPECT_EQ(asking.get(), "hello");
  }
}

TEST(Connection, AHandshakeThatIsCutUntilTheDeadlineIsALostPeer) {
  EventLoop loop("client");
  asio::io_context context;
  tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
  const Address address{.host = "127.0.0.1", .port = acceptor.local_endpoint().port()};
  std::atomic<bool> done = false;
  std::thread cutting([&] {
    while (!done) acceptor.accept();
  });
  for (const Transport transport : {Transport::kTcp, Transport::kTls}) {
    EXPECT_FAILS(Connection::open(loop, address, connect_options(transport, 2s)), PeerLost, "the echo",
                 "during the handshake");
  }
  done = true;
  tcp::socket last(context);
  last.connect(acceptor.local_endpoint());
  cutting.join();
}

TEST(Service, APortInUseIsAnErrorThatNamesIt) {
  EchoHandler handler;
  const Service first(echo_options(), handler);
  auto options = echo_options();
  options.listener.port = first.address().port;
  EXPECT_FAILS(Service(options, handler), IoError, first.address().text(), "in use", "another port");
  options.listener.host = "no-such-host.invalid";
  EXPECT_FAILS(Service(options, handler), IoError, "no-such-host.invalid");
}

}  // namespace
}  // namespace trireme::net
