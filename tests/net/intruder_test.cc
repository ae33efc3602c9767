// What somebody can do to a service with a plain socket.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/file.h"
#include "base/log.h"
#include "base/random.h"
#include "net/control_socket.h"
#include "net/secure/frame_mac.h"
#include "net/secure/handshake.h"
#include "net/shm/ring.h"
#include "tests/net/testing.h"
#include "tests/support/events.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"
#include "tests/support/temp_folder.h"

namespace trireme::net {
namespace {

/// A blocking client without any of our client's manners.
class RawClient {
 public:
  static RawClient tcp(const Address& address) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(address.port);
    ::inet_pton(AF_INET, "127.0.0.1", &where.sin_addr);
    return RawClient(Carrier::kTcp, AF_INET, &where, sizeof(where));
  }

  static RawClient local(const Address& address) {
    sockaddr_un where{};
    where.sun_family = AF_UNIX;
    address.unix_name.copy(where.sun_path + 1, sizeof(where.sun_path) - 1);
    return RawClient(Carrier::kUnix, AF_UNIX, &where,
                     static_cast<socklen_t>(sizeof(sa_family_t) + 1 + address.unix_name.size()));
  }

  void send(Bytes bytes) { ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }

  template <typename T>
  void send_struct(const T& value) {
    send(std::as_bytes(std::span(&value, 1)));
  }

  /// Up to `bytes`; less if the other side closed, or was silent for 10 s.
  std::string receive(std::size_t bytes) {
    std::string got(bytes, '\0');
    std::size_t size = 0;
    while (size < bytes) {
      const auto more = ::recv(socket_.get(), got.data() + size, bytes - size, 0);
      if (more <= 0) {
        silent_ = more < 0 && errno == EAGAIN;
        break;
      }
      size += static_cast<std::size_t>(more);
    }
    got.resize(size);
    return got;
  }

  bool is_closed() { return receive(1).empty() && !silent_; }

  /// The client's side of the handshake; what the service says at its end.
  Verdict client_handshake(const std::string& secret) {
    const Hello hello{.carrier = carrier_, .nonce = fresh_nonce()};
    send_struct(hello);
    Answer answer;
    const std::string got = receive(sizeof(answer));
    if (got.size() != sizeof(answer)) return Verdict::kOtherVersion;
    std::memcpy(&answer, got.data(), sizeof(answer));
    if (answer.verdict != Verdict::kAccepted) return answer.verdict;
    const Transcript transcript(secret, hello, answer, "");
    mac_.emplace(transcript.keys().to_service);
    send(transcript.proof("client"));
    const std::string verdict = receive(1);
    return verdict.empty() ? Verdict::kOtherVersion : static_cast<Verdict>(verdict[0]);
  }

  /// A frame with its tag, after the handshake.
  void send_frame(const FrameHeader& header, const std::string& body) {
    const auto bytes = encode_header(header);
    const Bytes parts[] = {bytes, as_bytes(body)};
    send(parts[0]);
    send(parts[1]);
    send(mac_->next(parts));
  }

  /// From now on it says that it came over this.
  void claim(Carrier carrier) { carrier_ = carrier; }

  int descriptor() const { return socket_.get(); }

 private:
  RawClient(Carrier carrier, int family, const void* where, socklen_t size)
      : carrier_(carrier), socket_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{10, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (::connect(socket_.get(), static_cast<const sockaddr*>(where), size) != 0) fail_errno("connect");
  }

  Carrier carrier_;
  FileDescriptor socket_;
  std::optional<FrameMac> mac_;
  bool silent_ = false;
};

struct IntruderTest : ::testing::Test {
  static ServiceOptions options() {
    auto options = echo_options();
    options.listener.handshake_within = 1s;
    options.listener.unproven.places = 8;
    return options;
  }

  EchoHandler handler;
  Service service{options(), handler};

  ~IntruderTest() override { expect_alive(); }

  void expect_alive() {
    EventLoop loop("client");
    for (const Transport transport : {Transport::kShm, Transport::kTcp, Transport::kTls}) {
      EXPECT_EQ(ask(*Connection::open(loop, service.address(), connect_options(transport)), "hello"), "hello");
    }
  }
};

TEST_F(IntruderTest, RefusalOfAnotherVersionNamesOurs) {
  for (auto client : {&RawClient::tcp, &RawClient::local}) {
    RawClient raw = client(service.address());
    raw.send_struct(Hello{.version = 99});
    const std::string got = raw.receive(sizeof(Answer));
    ASSERT_EQ(got.size(), sizeof(Answer));
    Answer answer;
    std::memcpy(&answer, got.data(), sizeof(answer));
    EXPECT_EQ(answer.magic, kMagic);
    EXPECT_EQ(answer.version, kProtocolVersion);
    EXPECT_EQ(answer.verdict, Verdict::kOtherVersion);
    EXPECT_EQ(answer.proof, Digest{}) << "nothing may be proven to a stranger";
    EXPECT_TRUE(raw.is_closed());
  }
}

TEST_F(IntruderTest, AProofWithoutTheSecretIsRefused) {
  for (auto client : {&RawClient::tcp, &RawClient::local}) {
    RawClient raw = client(service.address());
    EXPECT_EQ(raw.client_handshake("a guess"), Verdict::kWrongSecret);
    EXPECT_TRUE(raw.is_closed());
  }
}

TEST_F(IntruderTest, AHandshakeOfAnotherTransportIsRefused) {
  RawClient raw = RawClient::tcp(service.address());
  raw.claim(Carrier::kTls);  // as if somebody had taken it out of a TLS connection
  EXPECT_EQ(raw.client_handshake(kSecret), Verdict::kOtherCarrier);
  EXPECT_TRUE(raw.is_closed());
}

TEST_F(IntruderTest, AFrameWithoutItsTagEndsTheConnection) {
  RawClient raw = RawClient::tcp(service.address());
  ASSERT_EQ(raw.client_handshake(kSecret), Verdict::kAccepted);
  raw.send(encode_header({.kind = kEcho, .body_bytes = 1, .request = 9}));
  raw.send(as_bytes("\x80 and sixteen bytes that are no tag"));
  EXPECT_TRUE(raw.is_closed());
  EXPECT_EQ(handler.requests, 0);
}

TEST_F(IntruderTest, RefusesTheServicesOwnProof) {
  RawClient raw = RawClient::tcp(service.address());
  raw.send_struct(Hello{.nonce = fresh_nonce()});
  const std::string answer = raw.receive(sizeof(Answer));
  ASSERT_EQ(answer.size(), sizeof(Answer));
  raw.send(as_bytes(answer).last(sizeof(Digest)));
  EXPECT_EQ(raw.receive(2), std::string(1, static_cast<char>(Verdict::kWrongSecret)));
}

TEST_F(IntruderTest, GarbageIsClosed) {
  RandomStream random(5);
  for (int round = 0; round < 20; ++round) {
    std::string garbage(64 + 16 * static_cast<std::size_t>(round), '\0');
    for (char& byte : garbage) byte = static_cast<char>(random.next());
    garbage[0] = round % 2 == 0 ? '\x16' : 'G';  // as if it were TLS, or HTTP
    RawClient raw = RawClient::tcp(service.address());
    raw.send(as_bytes(garbage));
    while (!raw.is_closed()) {
    }
  }
  RawClient raw = RawClient::tcp(service.address());
  raw.send(as_bytes(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(600, 'x')));
  while (!raw.is_closed()) {
  }
}

TEST_F(IntruderTest, AFloodOfRefusalsIsLoggedAsACount) {
  const TempFolder folder;
  set_up_logging({.file = folder / "log", .to_stderr = false});
  constexpr std::size_t kFlood = 500;
  {
    const Service flooded(options(), handler);
    for (std::size_t i = 0; i < kFlood; ++i) {
      RawClient raw = RawClient::tcp(flooded.address());
      raw.send(as_bytes("GET / HTTP/1.1 and so on, as long as a greeting of ours would be, or longer"));
      EXPECT_TRUE(raw.is_closed());
    }
  }
  set_up_logging({.level = LogLevel::kWarn});
  const std::string log = read_file(folder / "log");
  EXPECT_THAT(log, HasEvent("connection_refused", {{"reason", ::testing::HasSubstr("does not speak")}}));
  std::size_t lines = 0;
  std::size_t refused = 0;
  for (const LoggedEvent& event : events_in(log)) {
    ++lines;
    refused += event.key == "connections_refused" ? std::stoul(event.fields.at("count")) : 1;
  }
  EXPECT_EQ(refused, kFlood);
  EXPECT_LT(lines, kFlood / 5) << log;
}

TEST_F(IntruderTest, ClosesSilentConnectionsAfterTheHandshakeTime) {
  for (auto client : {&RawClient::tcp, &RawClient::local}) {
    RawClient silent = client(service.address());
    RawClient slow = client(service.address());
    slow.send(as_bytes("TRIR"));
    expect_ends_within(kPatience, [&] {
      EXPECT_TRUE(silent.is_closed());
      EXPECT_TRUE(slow.is_closed());
    });
  }
}

TEST_F(IntruderTest, ManyUnauthenticatedConnectionsAreClosed) {
  std::vector<RawClient> crowd;
  for (int i = 0; i < 40; ++i) crowd.push_back(RawClient::tcp(service.address()));
  for (RawClient& one : crowd) EXPECT_TRUE(one.is_closed());
}

/// Strangers that stay as long as they may: nothing but room for others ends their connections.
struct CrowdedTest : ::testing::Test {
  static ServiceOptions options() {
    auto options = echo_options();
    options.listener.handshake_within = kPatience;
    return options;
  }

  EchoHandler handler;
  Service service{options(), handler};

  void expect_room_for_others() {
    EventLoop loop("client");
    for (const Transport transport : {Transport::kShm, Transport::kTcp, Transport::kTls}) {
      const auto connection = Connection::open(loop, service.address(), connect_options(transport, kPatience / 2));
      EXPECT_EQ(ask(*connection, "hello"), "hello");
    }
  }
};

TEST_F(CrowdedTest, SilentConnectionsMakeWayForOthers) {
  std::vector<RawClient> crowd;
  for (std::size_t i = 0; i < options().listener.unproven.places; ++i) {
    crowd.push_back(RawClient::tcp(service.address()));
    crowd.push_back(RawClient::local(service.address()));
  }
  expect_room_for_others();
}

TEST(Crowded, StrangersThatMakeNoWayDoNotKeepThisUserWaiting) {
  auto options = CrowdedTest::options();
  options.listener.unproven.idle_after = 1h;
  EchoHandler handler;
  Service service(options, handler);
  std::vector<RawClient> crowd;
  for (std::size_t i = 0; i < 2 * options.listener.unproven.places; ++i) {
    crowd.push_back(RawClient::tcp(service.address()));
  }
  EventLoop loop("client");
  EXPECT_FAILS(Connection::open(loop, service.address(), connect_options(Transport::kTcp, 500ms)), Error, "the echo");
  const auto connection = Connection::open(loop, service.address(), connect_options(Transport::kShm, kPatience / 2));
  EXPECT_EQ(ask(*connection, "hello"), "hello");
}

TEST_F(CrowdedTest, HandshakesThatAreNotContinuedMakeWayForOthers) {
  std::vector<RawClient> crowd;
  for (std::size_t i = 0; i < options().listener.unproven.places; ++i) {
    crowd.push_back(RawClient::tcp(service.address()));
    crowd.back().send_struct(Hello{.nonce = fresh_nonce()});
  }
  expect_room_for_others();
}

TEST_F(IntruderTest, AFrameThatClaimsEightGibibytesEndsTheConnection) {
  for (const FrameHeader& header : {FrameHeader{.kind = kEcho, .payload_bytes = std::uint64_t{8} << 30},
                                    FrameHeader{.kind = kEcho, .body_bytes = 0xffffffff}}) {
    RawClient raw = RawClient::tcp(service.address());
    ASSERT_EQ(raw.client_handshake(kSecret), Verdict::kAccepted);
    raw.send(encode_header(header));
    EXPECT_TRUE(raw.is_closed());
  }
  std::string status = read_file("/proc/self/status");
  const auto peak = std::stoul(status.substr(status.find("VmHWM:") + 6));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(peak, 200'000u) << "KiB";
#else
  static_cast<void>(peak);
#endif
}

TEST_F(IntruderTest, AFrameWithABrokenBodyIsAnsweredWithAnError) {
  RawClient raw = RawClient::tcp(service.address());
  ASSERT_EQ(raw.client_handshake(kSecret), Verdict::kAccepted);
  raw.send_frame({.kind = kEcho, .body_bytes = 3, .request = 9}, "\xc1\xc1\xc1");
  const std::string got = raw.receive(kHeaderBytes);
  ASSERT_EQ(got.size(), kHeaderBytes);
  const FrameHeader reply = decode_header(as_bytes(got).first<kHeaderBytes>(), {});
  EXPECT_EQ(reply.request, 9u);
  EXPECT_EQ(reply.flags, kReply | kError);
}

TEST_F(IntruderTest, RefusesInvalidRings) {
  const auto handshaken = [&] {
    RawClient raw = RawClient::local(service.address());
    EXPECT_EQ(raw.client_handshake(kSecret), Verdict::kAccepted);
    return raw;
  };
  const auto rings = Segment::create("rings", 1u << 20);
  const FileDescriptor loose(::open("/dev/null", O_RDWR | O_CLOEXEC));
  using Type = ControlMessage::Type;
  {
    RawClient raw = handshaken();
    raw.send(as_bytes("no descriptors in this message"));
    EXPECT_TRUE(raw.is_closed());
  }
  {
    RawClient raw = handshaken();
    send_control(raw.descriptor(), Type::kRings, 0, 1u << 20, {loose.get(), loose.get()});
    EXPECT_TRUE(raw.is_closed());
  }
  {
    RawClient raw = handshaken();
    send_control(raw.descriptor(), Type::kRings, 0, 8192, {rings->descriptor(), loose.get()});
    EXPECT_TRUE(raw.is_closed());
  }
  {
    RawClient raw = handshaken();
    send_control(raw.descriptor(), Type::kRings, 0, 1u << 20, {rings->descriptor()});
    EXPECT_TRUE(raw.is_closed());
  }
  {
    RawClient raw = handshaken();
    send_control(raw.descriptor(), Type::kSegment, 1, 1u << 20, {rings->descriptor(), loose.get()});
    EXPECT_TRUE(raw.is_closed());
  }
}

/// A client that has proven the secret and shares rings with the service, to write anything into them.
struct HostileRings {
  RawClient raw;
  std::shared_ptr<Segment> rings = Segment::create("rings", 1u << 20);
  FileDescriptor doorbell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

  explicit HostileRings(const Address& address) : raw(RawClient::local(address)) {
    EXPECT_EQ(raw.client_handshake(kSecret), Verdict::kAccepted);
    send_control(raw.descriptor(), ControlMessage::Type::kRings, 0, 1u << 20, {rings->descriptor(), doorbell.get()});
    EXPECT_EQ(raw.receive(24).size(), 24u);  // the service's doorbell
  }
  MutableBytes to_service() { return rings->bytes().first(Ring::kControlBytes + (256u << 10)); }
  MutableBytes from_service() { return rings->bytes().subspan(Ring::kControlBytes + (256u << 10)); }
  void write_frame(const FrameHeader& header, const std::string& body) {
    const auto bytes = encode_header(header);
    const Bytes parts[] = {bytes, as_bytes(body)};
    Ring(to_service()).push(parts);
  }
};

TEST_F(IntruderTest, InvalidBytesInTheRingEndTheConnection) {
  const auto expect_refused = [&](const auto& mischief) {
    HostileRings hostile(service.address());
    mischief(hostile);
    EXPECT_TRUE(hostile.raw.is_closed());
  };
  expect_refused([](HostileRings& h) { store_le(h.to_service(), ~std::uint64_t{0}); });
  expect_refused([](HostileRings& h) {
    store_le(h.to_service(), std::uint64_t{8});
    store_le(h.to_service().subspan(192), 99u);
  });
  expect_refused([](HostileRings& h) { h.write_frame({.kind = kEcho, .body_bytes = 100}, "short"); });
  expect_refused([](HostileRings& h) { h.write_frame({.kind = kEcho, .payload_bytes = std::uint64_t{8} << 30}, ""); });
  expect_refused([](HostileRings& h) {  // the answer finds an impossible position
    store_le(h.from_service().subspan(64), std::uint64_t{12345});
    h.write_frame({.kind = kEcho, .body_bytes = 1}, "\x01");
  });
  expect_refused([](HostileRings& h) {  // a segment that is none
    send_control(h.raw.descriptor(), ControlMessage::Type::kSegment, 1, 4096, {h.doorbell.get()});
  });
}

TEST_F(IntruderTest, InvalidBytesInTheRingOfAClosedConnectionAreHarmless) {
  for (int i = 0; i < 20; ++i) {
    HostileRings hostile(service.address());
    hostile.write_frame({.kind = kEcho, .body_bytes = 100}, "short");
    ::shutdown(hostile.raw.descriptor(), SHUT_RDWR);
  }
}

}  // namespace
}  // namespace trireme::net
