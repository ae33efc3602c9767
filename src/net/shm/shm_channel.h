#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/mutex.h"
#include "net/channel.h"
#include "net/shm/ring.h"

namespace trireme::net {

/// An eventfd that wakes a process from its sleep.
class Doorbell {
 public:
  Doorbell();
  /// A peer's. Throws Corrupt if it is a pipe, socket or file: a write to one of these could block, or end up anywhere.
  explicit Doorbell(FileDescriptor descriptor);

  void ring() const;
  void silence() const;  ///< forget the rings so far
  int descriptor() const { return descriptor_.get(); }

 private:
  FileDescriptor descriptor_;
};

struct ShmChannelOptions {
  std::string peer;
  FrameLimits limits;
  std::shared_ptr<Doorbell> own_doorbell;  ///< rung by the peer when we sleep
  std::size_t ring_bytes = 256u << 10;
};

/// A channel between two processes of one host: two rings in a memfd, a Unix socket that passes descriptors and whose
/// end tells of death. It owns no thread: whoever waits moves the frames (`pump`), or a ShmPoller does.
class ShmChannel final : public Channel {
 public:
  /// The connecting side: creates the rings and offers them over `socket` (authenticated, connected); waits until
  /// `deadline` for the other side to take them.
  static std::shared_ptr<ShmChannel> offer(FileDescriptor socket, std::weak_ptr<FrameReceiver> receiver,
                                           ShmChannelOptions options, Deadline deadline);

  /// The accepting side: takes the rings that the peer has offered on `socket`; waits until `deadline` for them.
  static std::shared_ptr<ShmChannel> accept(FileDescriptor socket, std::weak_ptr<FrameReceiver> receiver,
                                            ShmChannelOptions options, Deadline deadline);

  void start() override {}
  /// Throws InvalidArgument if the frame is larger than a ring: large data belongs into a shared segment.
  void send(OutFrame frame) override;
  void close(const std::string& reason) override;
  std::string peer() const override { return options_.peer; }
  void pump(const std::atomic<bool>& done, Deadline deadline) override;
  bool shares_memory() const override { return true; }
  std::uint64_t share(std::shared_ptr<Segment> segment) override;
  std::shared_ptr<Segment> shared(std::uint64_t id) override;

  /// Delivers what has arrived; returns how many frames. One thread at a time.
  std::size_t poll();

  /// Looks for descriptors and for the end of the peer. Cheap, but a system call.
  void check_socket();

  /// Whether a sleeper would miss nothing; sets or clears the flag that makes the peer ring our doorbell.
  bool prepare_sleep();
  void awake();

  /// Frames wait for room in the ring, which has no doorbell: poll again soon.
  bool has_backlog() const { return backlog_.load(std::memory_order_acquire); }

  int socket() const { return socket_.get(); }
  bool closed() const { return closed_.load(std::memory_order_acquire); }

 private:
  ShmChannel(FileDescriptor socket, std::weak_ptr<FrameReceiver> receiver, ShmChannelOptions options,
             std::shared_ptr<Segment> rings, bool offered, std::shared_ptr<Doorbell> peer_doorbell);

  void flush_queue() TRIREME_REQUIRES(send_mutex_);
  void take_segments() TRIREME_REQUIRES(poll_mutex_);
  void deliver(std::string record);
  void sleep(Deadline deadline);

  FileDescriptor socket_;
  std::weak_ptr<FrameReceiver> receiver_;
  ShmChannelOptions options_;
  std::shared_ptr<Segment> rings_;
  Ring outgoing_;
  Ring incoming_;
  std::shared_ptr<Doorbell> peer_doorbell_;
  std::atomic<bool> closed_{false};
  std::atomic<bool> backlog_{false};  // queue_ is not empty: the consumer's thread retries

  Mutex send_mutex_;
  std::deque<OutFrame> queue_ TRIREME_GUARDED_BY(send_mutex_);  // frames that did not fit
  std::uint64_t next_segment_ TRIREME_GUARDED_BY(send_mutex_) = 1;
  std::vector<std::shared_ptr<Segment>> own_segments_ TRIREME_GUARDED_BY(send_mutex_);  // keeps what we shared

  RecursiveMutex poll_mutex_;  // one thread consumes at a time; recursive: a receiver may close the channel
  std::map<std::uint64_t, std::shared_ptr<Segment>> peer_segments_ TRIREME_GUARDED_BY(poll_mutex_);
  std::string record_ TRIREME_GUARDED_BY(poll_mutex_);  // reused
};

}  // namespace trireme::net
