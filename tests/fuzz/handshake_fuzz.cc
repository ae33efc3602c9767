// The handshake with a hostile peer. The first byte says which side we are and what the peer knows; the rest is what it
// sends, or, if it knows the secret, what it changes (by exclusive or) in what an honest peer would send.
#include <algorithm>

#include "net/secure/handshake.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/secret.h"

namespace trireme::net {
namespace {

/// A stream whose other end is a function of what was written so far.
class PeerStream {
 public:
  using executor_type = asio::io_context::executor_type;
  using Peer = std::function<std::string(const std::string& written)>;  ///< all that it sends until then

  PeerStream(asio::io_context& context, Peer peer) : context_(context), peer_(std::move(peer)) {}

  executor_type get_executor() { return context_.get_executor(); }

  template <typename Buffers, typename Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    const std::size_t size = asio::buffer_size(buffers);
    const std::size_t before = written_.size();
    written_.resize(before + size);
    asio::buffer_copy(asio::buffer(written_.data() + before, size), buffers);
    return complete({}, size, std::forward<Token>(token));
  }

  template <typename Buffers, typename Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    const std::string sent = peer_(written_);
    const std::size_t size = asio::buffer_copy(buffers, asio::buffer(sent) + read_);
    read_ += size;
    const bool ended = size == 0 && asio::buffer_size(buffers) > 0;
    return complete(ended ? asio::error::eof : boost::system::error_code(), size, std::forward<Token>(token));
  }

 private:
  template <typename Token>
  auto complete(boost::system::error_code problem, std::size_t size, Token&& token) {
    return asio::async_initiate<Token, void(boost::system::error_code, std::size_t)>(
        [this, problem, size](auto handler) {
          asio::post(context_, [handler = std::move(handler), problem, size]() mutable { handler(problem, size); });
        },
        token);
  }

  asio::io_context& context_;
  Peer peer_;
  std::string written_;
  std::size_t read_ = 0;
};

template <typename Message>
std::string bytes_of(const Message& message) {
  return std::string(reinterpret_cast<const char*>(&message), sizeof(message));
}

template <typename Message>
Message read_message(const std::string& written) {
  Message message;
  std::memcpy(&message, written.data(), std::min(sizeof(message), written.size()));
  return message;
}

std::string honest_client(const std::string& written) {
  const Hello hello;
  std::string sent = bytes_of(hello);
  if (written.size() < sizeof(Answer)) return sent;
  return sent + bytes_of(Transcript(kSecret, hello, read_message<Answer>(written), "").proof("client"));
}

std::string honest_server(const std::string& written) {
  Answer answer;
  answer.proof = Transcript(kSecret, read_message<Hello>(written), answer, "").proof("server");
  std::string sent = bytes_of(answer);
  if (written.size() >= sizeof(Hello) + sizeof(Digest)) sent += bytes_of(Verdict::kAccepted);
  return sent;
}

/// Whether our side, a server or a client, came to trust the peer.
bool trusts(bool server, PeerStream::Peer peer) {
  asio::io_context context;
  PeerStream stream(context, std::move(peer));
  std::exception_ptr problem;
  bool ended = false;
  const HandshakeScope scope;  // that of an empty Hello
  asio::co_spawn(context, server ? server_handshake(stream, kSecret, scope) : client_handshake(stream, kSecret, scope),
                 [&](std::exception_ptr thrown, const FrameKeys& /*keys*/) {
                   problem = std::move(thrown);
                   ended = true;
                 });
  context.run();
  fuzz::require(ended, "a handshake never ends");
  return fuzz::returns_or_refuses([&] {
    try {
      if (problem) std::rethrow_exception(problem);
    } catch (const boost::system::system_error& ended_early) {  // the stream's own
      fail<PeerLost>("{}", ended_early.what());
    }
  });
}

void run(bool server, bool honest, std::string_view bytes) {
  if (!honest) {
    const bool trusted = trusts(server, [&](const std::string&) { return std::string(bytes); });
    return fuzz::require(!trusted, "a peer that does not know the secret was trusted");
  }
  const bool trusted = trusts(server, [&](const std::string& written) {
    std::string sent = server ? honest_client(written) : honest_server(written);
    for (std::size_t i = 0; i < std::min(sent.size(), bytes.size()); ++i)
      sent[i] = static_cast<char>(sent[i] ^ bytes[i]);
    return sent;
  });
  const std::size_t whole = server ? sizeof(Hello) + sizeof(Digest) : sizeof(Answer) + 1;
  bool changed = false;
  for (std::size_t i = 0; i < std::min(whole, bytes.size()); ++i) changed |= bytes[i] != 0;
  fuzz::require(trusted == !changed, "a handshake ended otherwise than its messages say");
}

}  // namespace
}  // namespace trireme::net

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  fuzz::Input input(data, size);
  const auto choice = input.number<std::uint8_t>();
  net::run((choice & 1) != 0, (choice & 2) != 0, input.rest());
  return 0;
}
