#include "net/raw_stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "net/dead_peer.h"

namespace trireme::net {
namespace {

void wait_ready(int descriptor, short events, Deadline deadline, const std::string& peer) {
  pollfd entry{descriptor, events, 0};
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.left()).count() + 1;
  if (deadline.passed() || (::poll(&entry, 1, static_cast<int>(left)) == 0 && deadline.passed())) {
    fail<Timeout>("{} did not answer in time while the ranks were being connected", peer);
  }
}

// How TLS gets at the socket. OpenSSL's own way writes with write(), and a peer that has died would end this process by
// SIGPIPE.

int descriptor_of(BIO* bio) { return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio))); }

bool try_again() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

int write_socket(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = ::send(descriptor_of(bio), data, static_cast<std::size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && try_again()) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int read_socket(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t received = ::recv(descriptor_of(bio), data, static_cast<std::size_t>(size), MSG_DONTWAIT);
  if (received < 0 && try_again()) BIO_set_retry_read(bio);
  return static_cast<int>(received);
}

long control_socket(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO* make_socket_bio(int descriptor) {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "trireme socket");
    BIO_meth_set_write(made, write_socket);
    BIO_meth_set_read(made, read_socket);
    BIO_meth_set_ctrl(made, control_socket);
    return made;  // for ever
  }();
  BIO* bio = BIO_new(method);
  if (bio == nullptr) return nullptr;
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)));
  BIO_set_init(bio, 1);
  return bio;
}

}  // namespace

RawStream::RawStream(AuthenticatedStream proven, Side side, Deadline deadline) : peer_(std::move(proven.peer)) {
  if (auto* local = std::get_if<Local::socket>(&proven.socket)) {
    local->non_blocking(true);
    socket_ = FileDescriptor(local->release());
    kind_ = "shm";
  } else if (auto* plain = std::get_if<tcp::socket>(&proven.socket)) {
    plain->non_blocking(true);
    socket_ = FileDescriptor(plain->release());
    kind_ = "tcp";
    const bool connected = side == Side::kConnected;
    writer_.emplace(connected ? proven.keys.to_service : proven.keys.to_client);
    reader_.emplace(connected ? proven.keys.to_client : proven.keys.to_service);
  } else {
    TlsStream& stream = *std::get<std::unique_ptr<TlsStream>>(proven.socket);
    SSL* ssl = stream.native_handle();
    SSL_up_ref(ssl);
    tls_.reset(ssl);
    stream.next_layer().non_blocking(true);
    socket_ = FileDescriptor(stream.next_layer().release());
    BIO* bio = make_socket_bio(socket_.get());
    if (bio == nullptr) fail<IoError>("OpenSSL cannot take over the connection to {}", peer_);
    SSL_set_bio(ssl, bio, bio);
    SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    kind_ = "tls";
  }
  if (kind_ != "shm") end_if_host_is_silent(socket_.get(), /*peer_reads=*/false);
  // Asio reads ahead: whatever arrived before a side took over would be lost in its buffer. The connecting side takes
  // over first and says so; until then the accepting side is silent.
  std::byte ready{1};
  if (side == Side::kConnected) {
    send_all({&ready, 1}, deadline);
  } else {
    recv_all({&ready, 1}, deadline);
  }
}

RawStream::~RawStream() = default;

void RawStream::lost(const std::string& reason) const { fail<PeerLost>("{}: {}", peer_, reason); }

std::size_t RawStream::tls_result(int result) {
  if (result > 0) return static_cast<std::size_t>(result);
  switch (SSL_get_error(tls_.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return 0;
    case SSL_ERROR_SYSCALL:
      lost(errno == 0 ? "the connection ended" : std::strerror(errno));
    default:
      lost("the connection ended");
  }
}

std::size_t RawStream::try_send(Bytes bytes) {
  if (bytes.empty()) return 0;
  if (tls_) {
    ERR_clear_error();
    errno = 0;
    return tls_result(
        SSL_write(tls_.get(), bytes.data(), static_cast<int>(std::min<std::size_t>(bytes.size(), 1 << 20))));
  }
  if (!writer_) return send_some(bytes);
  std::size_t content = 0;
  while (content < bytes.size()) {
    writer_->begin(bytes.subspan(content));
    const std::size_t sent = send_some(writer_->unsent());
    content += writer_->sent(sent);
    if (!writer_->unsent().empty()) break;
  }
  return content;
}

std::size_t RawStream::send_some(Bytes bytes) {
  const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (try_again()) return 0;
  lost(std::strerror(errno));
}

std::size_t RawStream::try_recv(MutableBytes bytes) {
  if (bytes.empty()) return 0;
  if (tls_) {
    ERR_clear_error();
    errno = 0;
    return tls_result(
        SSL_read(tls_.get(), bytes.data(), static_cast<int>(std::min<std::size_t>(bytes.size(), 1 << 20))));
  }
  if (!reader_) return recv_some(bytes);
  try {
    for (;;) {
      if (const std::size_t taken = reader_->take(bytes)) return taken;
      const std::size_t received = recv_some(reader_->room());
      if (received == 0) return 0;
      reader_->arrived(received);
    }
  } catch (const Corrupt& problem) {  // nothing more can be had from it
    lost(problem.what());
  }
}

std::size_t RawStream::recv_some(MutableBytes bytes) {
  const ssize_t received = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (received > 0) return static_cast<std::size_t>(received);
  if (received == 0) lost("the connection ended");
  if (try_again()) return 0;
  lost(std::strerror(errno));
}

void RawStream::send_all(Bytes bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const std::size_t sent = try_send(bytes);
    bytes = bytes.subspan(sent);
    if (sent == 0) wait_ready(socket_.get(), POLLOUT, deadline, peer_);
  }
}

void RawStream::recv_all(MutableBytes bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const std::size_t received = try_recv(bytes);
    bytes = bytes.subspan(received);
    if (received == 0) wait_ready(socket_.get(), POLLIN, deadline, peer_);
  }
}

void RawStream::throttle(std::uint64_t bits_per_second) { net::throttle(socket_.get(), bits_per_second); }

}  // namespace trireme::net
