#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/deadline.h"

#include "net/frame.h"
#include "net/shm/segment.h"

namespace trireme::net {

/// A frame to send. `payload` is not copied: `hold` (or the caller's contract) keeps it alive until it is sent.
struct OutFrame {
  FrameHeader header;  ///< the channel fills in the lengths
  std::string body;
  std::vector<Bytes> payload;
  std::shared_ptr<const void> hold;
};

/// A frame received. The payload is here unless the receiver placed it elsewhere.
struct InFrame {
  FrameHeader header;
  std::string body;
  std::shared_ptr<std::byte> payload;

  Bytes body_bytes() const { return as_bytes(body); }
  MutableBytes payload_bytes() const { return {payload.get(), payload ? header.payload_bytes : 0}; }
};

/// The side of a channel that its owner implements. Called from one thread at a time per channel.
class FrameReceiver {
 public:
  virtual ~FrameReceiver() = default;

  /// Memory of exactly `header.payload_bytes` for a payload about to be read, or nullopt for a pooled buffer.
  virtual std::optional<std::vector<MutableBytes>> place(const FrameHeader& header) = 0;

  virtual void on_frame(InFrame frame) = 0;

  /// The channel ended, for `reason`; called once, the last call.
  virtual void on_close(const std::string& reason) = 0;
};

/// Frames in both directions between two processes that have proven the job's secret to each other. Tenants:
/// `tcp_channel` (also TLS) and `shm_channel`.
class Channel {
 public:
  virtual ~Channel() = default;

  /// Begins to deliver frames to the receiver; called once, by the owner, when it is ready for them.
  virtual void start() = 0;

  /// Queues a frame; never blocks; thread-safe. Frames arrive in the order they were sent. After the channel closed
  /// they are dropped: `on_close` told the owner. Throws InvalidArgument if this transport can never carry the frame.
  virtual void send(OutFrame frame) = 0;

  /// Ends the channel; `on_close` follows, perhaps on another thread. Thread-safe, may be called twice.
  virtual void close(const std::string& reason) = 0;

  /// For messages: "shm 127.0.0.1:4821".
  virtual std::string peer() const = 0;

  /// Waits until `done` or the deadline, moving frames meanwhile if this transport needs the waiting thread for that.
  virtual void pump(const std::atomic<bool>& done, Deadline deadline) = 0;

  /// Returns how long the other host has been silent, although it is asked for a sign of life every second; 0 where it
  /// is not: see ConnectOptions::silent_after. Thread-safe.
  virtual std::chrono::milliseconds host_silence() { return std::chrono::milliseconds(0); }

  /// Whether both sides can map each other's segments.
  virtual bool shares_memory() const { return false; }

  /// Gives the peer access to `segment`; frames sent later may refer to it by the id returned. Only if shares_memory().
  virtual std::uint64_t share(std::shared_ptr<Segment> segment);

  /// A segment the peer shared, or nullptr. Only from on_frame, or while nobody waits on this channel.
  virtual std::shared_ptr<Segment> shared(std::uint64_t id);
};

}  // namespace trireme::net
