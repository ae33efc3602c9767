#pragma once

#include <memory>
#include <optional>
#include <string>

#include "trireme/deadline.h"

#include "base/bytes.h"
#include "base/file.h"
#include "net/connect.h"
#include "net/secure/frame_mac.h"

namespace trireme::net {

/// A proven connection as a plain descriptor, driven by the thread that waits: no hand-over between threads on the way
/// of a message, which would cost more than a small message itself. One thread at a time. Over TCP in the clear it
/// carries tags (secure/frame_mac.h).
class RawStream {
 public:
  enum class Side { kConnected, kAccepted };

  /// Takes the socket out of asio's hands. Both sides call it; the accepted one waits for the other. Throws Timeout,
  /// PeerLost.
  RawStream(AuthenticatedStream proven, Side side, Deadline deadline);
  ~RawStream();
  RawStream(RawStream&&) noexcept = default;
  RawStream& operator=(RawStream&&) noexcept = default;

  /// Sends or receives what it can without waiting; returns how many bytes. What was not sent is to be given again
  /// before anything else. Throws PeerLost at the end of the stream, or if something was changed on its way.
  std::size_t try_send(Bytes bytes);
  std::size_t try_recv(MutableBytes bytes);

  /// Waits for all of it. Throws Timeout.
  void send_all(Bytes bytes, Deadline deadline);
  void recv_all(MutableBytes bytes, Deadline deadline);

  /// Holds the sending side down to this speed.
  void throttle(std::uint64_t bits_per_second);

  int descriptor() const { return socket_.get(); }
  const std::string& peer() const { return peer_; }
  const std::string& kind() const { return kind_; }  ///< "shm", "tcp", "tls"

 private:
  struct FreeTls {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };

  [[noreturn]] void lost(const std::string& reason) const;
  std::size_t tls_result(int result);
  std::size_t send_some(Bytes bytes);
  std::size_t recv_some(MutableBytes bytes);

  FileDescriptor socket_;
  std::unique_ptr<SSL, FreeTls> tls_;
  std::optional<RecordWriter> writer_;  // in the clear, as the next
  std::optional<RecordReader> reader_;
  std::string peer_;
  std::string kind_;
};

}  // namespace trireme::net
