#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/hash.h"
#include "net/asio.h"
#include "net/frame.h"

namespace trireme::net {

// Each side proves to the other that it knows the job's secret before a frame is read. Everything has a fixed size.
//
//   client -> server   Hello  { magic, version, carrier, 32 random bytes, role and identity of the service it wants }
//   server -> client   Answer { magic, version, verdict, 32 random bytes, its role and identity, proof of the server }
//   client -> server   Proof  of the client
//   server -> client   u8 verdict
//
// A proof is an HMAC, keyed by the secret, over its side, Hello, Answer and, in TLS, what only the two ends of this TLS
// connection know. So a handshake is good for one connection, to one service, over one kind of transport: a recording
// is worthless, and a stranger who passes the messages on to another service, or out of a TLS connection, is refused.
// Whoever passes them on to the right service learns nothing: what follows in the clear carries tags (frame_mac.h) with
// keys that come from the secret and both sides' random bytes.

using Nonce = std::array<std::byte, 32>;
using Label = std::array<char, 16>;  ///< text, filled up with zeros

/// What carries the connection, as each side sees it.
enum class Carrier : std::uint8_t { kTcp = 1, kTls = 2, kUnix = 3 };

enum class Verdict : std::uint8_t {
  kAccepted = 0,
  kOtherVersion = 1,
  kWrongSecret = 2,
  kMustEncrypt = 3,
  kOtherCarrier = 4,
  kOtherRole = 5,
  kOtherIdentity = 6,
};

/// What a handshake is about besides the secret. Both sides must mean the same.
struct HandshakeScope {
  Carrier carrier = Carrier::kTcp;
  std::string role = {};      ///< of the service: "master"; empty at a client: any; at a service: it has none
  std::string identity = {};  ///< Address::identity; empty at a client: any
  std::string channel = {};   ///< TLS: tls_channel_binding()
};

struct Hello {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kProtocolVersion;
  Carrier carrier = Carrier::kTcp;
  std::uint8_t zero = 0;
  Nonce nonce{};
  Label role{};
  Label identity{};
};
static_assert(sizeof(Hello) == 72);
inline constexpr std::size_t kHelloPrefix = 8;  ///< magic and version: the same in every version of the protocol

struct Answer {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kProtocolVersion;
  Verdict verdict = Verdict::kAccepted;
  std::uint8_t zero = 0;
  Nonce nonce{};
  Label role{};
  Label identity{};
  Digest proof{};
};
static_assert(sizeof(Answer) == 104);

Nonce fresh_nonce();
Label label_of(const std::string& text);
std::string text_of(const Label& label);

/// Keys for the frames of one connection, by direction.
struct FrameKeys {
  Digest to_service{};
  Digest to_client{};
};

/// What both sides have said so far, and what they derive from it.
class Transcript {
 public:
  Transcript(std::string secret, const Hello& hello, const Answer& answer, const std::string& channel);

  Digest proof(std::string_view side) const;  ///< of "client" or "server"
  FrameKeys keys() const;

 private:
  std::string secret_;
  std::string said_;
};

/// Returns why the service cannot be what the client wants; nullopt if it is.
std::optional<Verdict> find_mismatch(const Hello& hello, const HandshakeScope& own);

/// Throws what a client makes of an Answer that says no; returns if it says yes.
void check_answer(const Answer& answer, const HandshakeScope& wanted);

[[noreturn]] void fail_other_version(std::uint16_t theirs);
[[noreturn]] void fail_mismatch(Verdict verdict, const Hello& hello);  ///< the server's side of it

/// Closes a socket whose handshake takes too long. On the socket's strand; ends before the socket does.
template <typename Socket>
class HandshakeWatch {
 public:
  HandshakeWatch(Socket& socket, std::chrono::milliseconds allowed)
      : state_(std::make_shared<State>(State{asio::steady_timer(socket.get_executor(), allowed), &socket})) {
    state_->timer.async_wait([state = state_](const boost::system::error_code& cancelled) {
      if (!cancelled) state->close();
    });
  }
  ~HandshakeWatch() { call_off(); }
  HandshakeWatch(const HandshakeWatch&) = delete;
  HandshakeWatch& operator=(const HandshakeWatch&) = delete;

  void call_off() {
    state_->socket = nullptr;  // the timer may have run out already, its handler waiting for its turn
    state_->timer.cancel();
  }

  /// Closes the socket before its time, unless the handshake has ended. For any thread; may outlive the watch.
  std::function<void()> closer() const {
    return [state = state_, strand = state_->timer.get_executor()] { asio::post(strand, [state] { state->close(); }); };
  }

 private:
  struct State {
    asio::steady_timer timer;
    Socket* socket;

    void close() {
      boost::system::error_code ignored;
      if (socket != nullptr) socket->close(ignored);
    }
  };
  std::shared_ptr<State> state_;
};

/// Runs the client's side over any asio stream. Throws Unauthenticated, PeerLost if another service has taken the place
/// of the one that is wanted, or what the stream throws.
template <typename Stream>
awaitable<FrameKeys> client_handshake(Stream& stream, const std::string& secret, const HandshakeScope& wanted) {
  const Hello hello{.carrier = wanted.carrier,
                    .nonce = fresh_nonce(),
                    .role = label_of(wanted.role),
                    .identity = label_of(wanted.identity)};
  co_await asio::async_write(stream, asio::buffer(&hello, sizeof(hello)), use_awaitable);
  Answer answer;
  co_await asio::async_read(stream, asio::buffer(&answer, sizeof(answer)), use_awaitable);
  check_answer(answer, wanted);
  const Transcript transcript(secret, hello, answer, wanted.channel);
  if (!equal_digests(answer.proof, transcript.proof("server"))) {
    fail<Unauthenticated>("it has another job's secret: give both sides the same --secret-file");
  }
  const Digest proof = transcript.proof("client");
  co_await asio::async_write(stream, asio::buffer(proof), use_awaitable);
  Verdict verdict = Verdict::kWrongSecret;
  co_await asio::async_read(stream, asio::buffer(&verdict, sizeof(verdict)), use_awaitable);
  if (verdict != Verdict::kAccepted)
    fail<Unauthenticated>("it refused our secret: give both sides the same --secret-file");
  co_return transcript.keys();
}

/// Reads what the client wants. Throws Unauthenticated, after telling a client of another version ours.
template <typename Stream>
awaitable<Hello> read_hello(Stream& stream) {
  Hello hello;
  auto* bytes = reinterpret_cast<std::byte*>(&hello);
  co_await asio::async_read(stream, asio::buffer(bytes, kHelloPrefix), use_awaitable);
  if (hello.magic != kMagic) fail<Unauthenticated>("what connected does not speak Trireme's protocol");
  if (hello.version != kProtocolVersion) {
    const Answer answer{.verdict = Verdict::kOtherVersion};
    co_await asio::async_write(stream, asio::buffer(&answer, sizeof(answer)), use_awaitable);
    fail_other_version(hello.version);
  }
  co_await asio::async_read(stream, asio::buffer(bytes + kHelloPrefix, sizeof(hello) - kHelloPrefix), use_awaitable);
  co_return hello;
}

/// Tells a client that asks for something else than what `own` says; then throws Unauthenticated.
template <typename Stream>
awaitable<void> refuse(Stream& stream, Verdict verdict, const Hello& hello) {
  const Answer answer{.verdict = verdict};
  co_await asio::async_write(stream, asio::buffer(&answer, sizeof(answer)), use_awaitable);
  fail_mismatch(verdict, hello);
}

/// Runs the server's side; calls `on_proven`, if there is one, before it tells the client that it is accepted. Throws
/// Unauthenticated (after telling the client why), or what the stream throws.
template <typename Stream>
awaitable<FrameKeys> server_handshake(
    Stream& stream, const std::string& secret, const HandshakeScope& own,
    std::function<void()> on_proven = {}) {  // a copy: it outlives the call's first wait
  const Hello hello = co_await read_hello(stream);
  if (const auto mismatch = find_mismatch(hello, own)) co_await refuse(stream, *mismatch, hello);
  Answer answer{.nonce = fresh_nonce(), .role = label_of(own.role), .identity = label_of(own.identity)};
  const Transcript transcript(secret, hello, answer, own.channel);
  answer.proof = transcript.proof("server");
  co_await asio::async_write(stream, asio::buffer(&answer, sizeof(answer)), use_awaitable);
  Digest proof;
  co_await asio::async_read(stream, asio::buffer(proof), use_awaitable);
  const bool known = equal_digests(proof, transcript.proof("client"));
  if (known && on_proven) on_proven();
  const Verdict verdict = known ? Verdict::kAccepted : Verdict::kWrongSecret;
  co_await asio::async_write(stream, asio::buffer(&verdict, sizeof(verdict)), use_awaitable);
  if (!known) fail<Unauthenticated>("it does not know the job's secret");
  co_return transcript.keys();
}

/// Tells a client, instead of the handshake, that it must encrypt; then throws Unauthenticated.
template <typename Stream>
awaitable<void> refuse_plain(Stream& stream) {
  const Hello hello = co_await read_hello(stream);
  co_await refuse(stream, Verdict::kMustEncrypt, hello);
}

}  // namespace trireme::net
