#pragma once

#include <atomic>
#include <cstdint>

#include "base/bytes.h"
#include "net/raw_stream.h"

namespace trireme::collective {

/// A byte stream to and from one other rank: a socket, or two rings in shared memory. Not thread-safe.
class Pipe {
 public:
  virtual ~Pipe() = default;

  /// Move what they can without waiting; return how many bytes. Throw PeerLost at the end of the stream.
  virtual std::size_t try_send(Bytes bytes) = 0;
  virtual std::size_t try_recv(MutableBytes bytes) = 0;

  /// Returns what `poll` can wait on; -1 = shared memory, where this rank's doorbell rings.
  virtual int descriptor() const = 0;
};

class StreamPipe final : public Pipe {
 public:
  StreamPipe(net::RawStream stream, std::atomic<std::uint64_t>& sent_bytes)
      : stream_(std::move(stream)), sent_bytes_(sent_bytes) {}

  std::size_t try_send(Bytes bytes) override {
    const std::size_t sent = stream_.try_send(bytes);
    sent_bytes_.fetch_add(sent, std::memory_order_relaxed);
    return sent;
  }
  std::size_t try_recv(MutableBytes bytes) override { return stream_.try_recv(bytes); }
  int descriptor() const override { return stream_.descriptor(); }

 private:
  net::RawStream stream_;
  std::atomic<std::uint64_t>& sent_bytes_;
};

}  // namespace trireme::collective
