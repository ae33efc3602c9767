#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/hash.h"
#include "net/asio.h"
#include "net/frame.h"

namespace trireme::net {

// Each side proves to the other that it knows the job's secret before a frame is read. Everything has a fixed size.
//
//   client -> server   Hello  { magic, version, 32 random bytes }
//   server -> client   Answer { magic, version, verdict, 32 random bytes, HMAC(secret, "server", both random) }
//   client -> server   Proof  { HMAC(secret, "client", both random) }
//   server -> client   u8 verdict
//
// A recording of one handshake is worthless for the next: both sides contribute fresh random bytes.

using Nonce = std::array<std::byte, 32>;

enum class Verdict : std::uint8_t { kAccepted = 0, kOtherVersion = 1, kWrongSecret = 2 };

struct Hello {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kProtocolVersion;
  std::uint16_t zero = 0;
  Nonce nonce{};
};
static_assert(sizeof(Hello) == 40);

struct Answer {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kProtocolVersion;
  Verdict verdict = Verdict::kAccepted;
  std::uint8_t zero = 0;
  Nonce nonce{};
  Digest proof{};
};
static_assert(sizeof(Answer) == 72);

Nonce fresh_nonce();
Digest handshake_proof(const std::string& secret, std::string_view side, const Nonce& client, const Nonce& server);

[[noreturn]] void fail_other_version(std::uint16_t theirs);

/// Closes a socket whose handshake takes too long. On the socket's strand; ends before the socket does.
template <typename Socket>
class HandshakeWatch {
 public:
  HandshakeWatch(Socket& socket, std::chrono::milliseconds allowed)
      : state_(std::make_shared<State>(State{asio::steady_timer(socket.get_executor(), allowed), &socket})) {
    state_->timer.async_wait([state = state_](const boost::system::error_code& cancelled) {
      boost::system::error_code ignored;
      if (!cancelled && state->socket != nullptr) state->socket->close(ignored);
    });
  }
  ~HandshakeWatch() { call_off(); }
  HandshakeWatch(const HandshakeWatch&) = delete;
  HandshakeWatch& operator=(const HandshakeWatch&) = delete;

  void call_off() {
    state_->socket = nullptr;  // the timer may have run out already, its handler waiting for its turn
    state_->timer.cancel();
  }

 private:
  struct State {
    asio::steady_timer timer;
    Socket* socket;
  };
  std::shared_ptr<State> state_;
};

/// Runs the client's side over any asio stream. Throws Unauthenticated, or what the stream throws.
template <typename Stream>
awaitable<void> client_handshake(Stream& stream, const std::string& secret) {
  Hello hello{.nonce = fresh_nonce()};
  co_await asio::async_write(stream, asio::buffer(&hello, sizeof(hello)), use_awaitable);
  Answer answer;
  co_await asio::async_read(stream, asio::buffer(&answer, sizeof(answer)), use_awaitable);
  if (answer.magic != kMagic) fail<Unauthenticated>("what answers there is not Trireme");
  if (answer.version != kProtocolVersion) fail_other_version(answer.version);
  if (!equal_digests(answer.proof, handshake_proof(secret, "server", hello.nonce, answer.nonce))) {
    fail<Unauthenticated>("it has another job's secret: give both sides the same --secret-file");
  }
  Digest proof = handshake_proof(secret, "client", hello.nonce, answer.nonce);
  co_await asio::async_write(stream, asio::buffer(proof), use_awaitable);
  Verdict verdict = Verdict::kWrongSecret;
  co_await asio::async_read(stream, asio::buffer(&verdict, sizeof(verdict)), use_awaitable);
  if (verdict != Verdict::kAccepted)
    fail<Unauthenticated>("it refused our secret: give both sides the same --secret-file");
}

/// Runs the server's side. Throws Unauthenticated (after telling the client why), or what the stream throws.
template <typename Stream>
awaitable<void> server_handshake(Stream& stream, const std::string& secret) {
  Hello hello;
  co_await asio::async_read(stream, asio::buffer(&hello, sizeof(hello)), use_awaitable);
  if (hello.magic != kMagic) fail<Unauthenticated>("what connected does not speak Trireme's protocol");
  Answer answer{.nonce = fresh_nonce()};
  if (hello.version != kProtocolVersion) {
    answer.verdict = Verdict::kOtherVersion;
    co_await asio::async_write(stream, asio::buffer(&answer, sizeof(answer)), use_awaitable);
    fail_other_version(hello.version);
  }
  answer.proof = handshake_proof(secret, "server", hello.nonce, answer.nonce);
  co_await asio::async_write(stream, asio::buffer(&answer, sizeof(answer)), use_awaitable);
  Digest proof;
  co_await asio::async_read(stream, asio::buffer(proof), use_awaitable);
  const bool known = equal_digests(proof, handshake_proof(secret, "client", hello.nonce, answer.nonce));
  const Verdict verdict = known ? Verdict::kAccepted : Verdict::kWrongSecret;
  co_await asio::async_write(stream, asio::buffer(&verdict, sizeof(verdict)), use_awaitable);
  if (!known) fail<Unauthenticated>("it does not know the job's secret");
}

}  // namespace trireme::net
