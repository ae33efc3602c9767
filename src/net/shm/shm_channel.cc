#include "net/shm/shm_channel.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "net/control_socket.h"
#include "net/shm/spin.h"

namespace trireme::net {
namespace {

constexpr std::size_t kMaxPeerSegments = 256;

ControlMessage wait_control(int socket, ControlMessage::Type type, Deadline deadline) {
  for (;;) {
    if (auto message = receive_control(socket)) {
      if (message->type == type) return std::move(*message);
      fail<Corrupt>("the peer sent an unexpected message while setting up shared memory");
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left());
    if (left.count() == 0)
      fail<Timeout>("the peer did not set up shared memory within {} ms", deadline.allowed().count());
    pollfd waiting{socket, POLLIN, 0};
    ::poll(&waiting, 1, static_cast<int>(left.count()));
  }
}

MutableBytes ring_part(const Segment& rings, std::size_t ring_bytes, bool first) {
  return rings.bytes().subspan(first ? 0 : Ring::kControlBytes + ring_bytes, Ring::kControlBytes + ring_bytes);
}

std::size_t ring_bytes_of(std::size_t segment_bytes) {
  return std::bit_floor((segment_bytes / 2) - Ring::kControlBytes);
}

}  // namespace

Doorbell::Doorbell() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!descriptor_) fail_errno("cannot create an eventfd");
}

Doorbell::Doorbell(FileDescriptor descriptor) : descriptor_(std::move(descriptor)) {
  struct stat status {};
  if (::fstat(descriptor_.get(), &status) != 0) fail_errno("cannot inspect a peer's doorbell");
  if ((status.st_mode & S_IFMT) != 0) fail<Corrupt>("the peer passed something else than an eventfd as its doorbell");
}

void Doorbell::ring() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(descriptor_.get(), &one, sizeof(one));  // full = already ringing
}

void Doorbell::silence() const {
  std::uint64_t count;
  [[maybe_unused]] const auto read = ::read(descriptor_.get(), &count, sizeof(count));
}

std::shared_ptr<ShmChannel> ShmChannel::offer(FileDescriptor socket, std::weak_ptr<FrameReceiver> receiver,
                                              ShmChannelOptions options, Deadline deadline) {
  auto rings = Segment::create("trireme-rings", 2 * (Ring::kControlBytes + options.ring_bytes));
  send_control(socket.get(), ControlMessage::Type::kRings, 0, rings->bytes().size(),
               {rings->descriptor(), options.own_doorbell->descriptor()});
  auto answer = wait_control(socket.get(), ControlMessage::Type::kDoorbell, deadline);
  auto doorbell = std::make_shared<Doorbell>(std::move(answer.descriptors.front()));
  return std::shared_ptr<ShmChannel>(new ShmChannel(std::move(socket), std::move(receiver), std::move(options),
                                                    std::move(rings), /*offered=*/true, std::move(doorbell)));
}

std::shared_ptr<ShmChannel> ShmChannel::accept(FileDescriptor socket, std::weak_ptr<FrameReceiver> receiver,
                                               ShmChannelOptions options, Deadline deadline) {
  auto offered = wait_control(socket.get(), ControlMessage::Type::kRings, deadline);
  if (offered.descriptors.size() != 2 || offered.bytes < (4u << 10) || offered.bytes > (64u << 20)) {
    fail<Corrupt>("the peer offered rings of {} bytes", offered.bytes);
  }
  auto rings = Segment::map(std::move(offered.descriptors[0]), offered.bytes, Segment::Access::kReadWrite);
  auto doorbell = std::make_shared<Doorbell>(std::move(offered.descriptors[1]));
  send_control(socket.get(), ControlMessage::Type::kDoorbell, 0, 0, {options.own_doorbell->descriptor()});
  return std::shared_ptr<ShmChannel>(new ShmChannel(std::move(socket), std::move(receiver), std::move(options),
                                                    std::move(rings), /*offered=*/false, std::move(doorbell)));
}

ShmChannel::ShmChannel(FileDescriptor socket, std::weak_ptr<FrameReceiver> receiver, ShmChannelOptions options,
                       std::shared_ptr<Segment> rings, bool offered, std::shared_ptr<Doorbell> peer_doorbell)
    : socket_(std::move(socket)),
      receiver_(std::move(receiver)),
      options_(std::move(options)),
      rings_(std::move(rings)),
      outgoing_(ring_part(*rings_, ring_bytes_of(rings_->bytes().size()), offered)),
      incoming_(ring_part(*rings_, ring_bytes_of(rings_->bytes().size()), !offered)),
      peer_doorbell_(std::move(peer_doorbell)) {}

void ShmChannel::send(OutFrame frame) {
  frame.header.body_bytes = static_cast<std::uint32_t>(frame.body.size());
  frame.header.payload_bytes = 0;
  for (const Bytes part : frame.payload) frame.header.payload_bytes += part.size();
  const std::size_t bytes = kHeaderBytes + frame.body.size() + frame.header.payload_bytes;
  if (bytes > outgoing_.max_record()) {
    fail<InvalidArgument>("a message of {} bytes to {} does not fit a ring of {}: put it into a shared segment", bytes,
                          peer(), outgoing_.capacity());
  }
  const MutexLock lock(send_mutex_);
  if (closed()) return;
  queue_.push_back(std::move(frame));
  flush_queue();
}

void ShmChannel::flush_queue() try {
  bool sent = false;
  while (!queue_.empty()) {
    const OutFrame& frame = queue_.front();
    const auto header = encode_header(frame.header);
    std::vector<Bytes> parts{Bytes(header), as_bytes(frame.body)};
    parts.insert(parts.end(), frame.payload.begin(), frame.payload.end());
    if (!outgoing_.push(parts)) break;
    queue_.pop_front();
    sent = true;
  }
  backlog_.store(!queue_.empty(), std::memory_order_release);
  if (sent && outgoing_.consumer_sleeps()) peer_doorbell_->ring();
} catch (const Error& problem) {
  // The sender may hold locks that on_close wants: let the consuming thread find the end of the stream and close.
  log_warn("connection_abandoned", "gave up a connection", {{"peer", peer()}, {"reason", problem.what()}});
  queue_.clear();
  backlog_.store(false, std::memory_order_release);
  ::shutdown(socket_.get(), SHUT_RDWR);
}

void ShmChannel::close(const std::string& reason) {
  if (closed_.exchange(true)) return;
  ::shutdown(socket_.get(), SHUT_RDWR);  // the peer sees the end of the stream
  options_.own_doorbell->ring();         // wakes whoever pumps
  {
    const MutexLock lock(send_mutex_);  // whoever sends is done: queued payloads are not read any more
    queue_.clear();
    backlog_.store(false, std::memory_order_release);
  }
  const MutexLock lock(poll_mutex_);  // whoever pumps is done: nothing is written into a caller's memory
  if (const auto receiver = receiver_.lock()) receiver->on_close(reason);
}

std::uint64_t ShmChannel::share(std::shared_ptr<Segment> segment) {
  const MutexLock lock(send_mutex_);
  const std::uint64_t id = next_segment_++;
  send_control(socket_.get(), ControlMessage::Type::kSegment, id, segment->bytes().size(), {segment->descriptor()});
  own_segments_.push_back(std::move(segment));
  return id;
}

std::shared_ptr<Segment> ShmChannel::shared(std::uint64_t id) {
  const MutexLock lock(poll_mutex_);
  // The peer passed the descriptor before it sent the frame that names it, so it waits in the socket at the latest now.
  if (!peer_segments_.contains(id)) {
    try {
      take_segments();
    } catch (const Error&) {
      ::shutdown(socket_.get(), SHUT_RDWR);  // check_socket finds the end; here, a frame is still being handled
    }
  }
  const auto found = peer_segments_.find(id);
  return found == peer_segments_.end() ? nullptr : found->second;
}

void ShmChannel::take_segments() {
  while (auto message = receive_control(socket_.get())) {
    if (message->type != ControlMessage::Type::kSegment || peer_segments_.size() >= kMaxPeerSegments) {
      fail<Corrupt>("the peer shared more than {} segments", kMaxPeerSegments);
    }
    peer_segments_[message->id] =
        Segment::map(std::move(message->descriptors.front()), message->bytes, Segment::Access::kRead);
  }
}

void ShmChannel::check_socket() {
  if (closed()) return;
  const MutexLock lock(poll_mutex_);
  try {
    take_segments();
  } catch (const Error& problem) {
    poll();  // frames the peer sent before it went are still in the ring
    close(problem.what());
  }
}

std::size_t ShmChannel::poll() {
  if (has_backlog()) {
    const MutexLock lock(send_mutex_);
    flush_queue();
  }
  if (incoming_.empty()) return 0;  // who spins does not pay for the lock
  const MutexLock lock(poll_mutex_);
  std::size_t delivered = 0;
  try {
    while (!closed() && incoming_.pop(record_)) {
      deliver(std::move(record_));
      ++delivered;
    }
  } catch (const Error& problem) {
    close(problem.what());
  }
  return delivered;
}

void ShmChannel::deliver(std::string record) {
  const Bytes bytes = as_bytes(record);
  if (bytes.size() < kHeaderBytes) fail<Corrupt>("a frame of {} bytes is too short", bytes.size());
  InFrame frame{.header = decode_header(bytes.first<kHeaderBytes>(), options_.limits), .body = {}, .payload = {}};
  if (bytes.size() != kHeaderBytes + frame.header.body_bytes + frame.header.payload_bytes) {
    fail<Corrupt>("a frame's lengths do not add up to its {} bytes", bytes.size());
  }
  const auto receiver = receiver_.lock();
  if (!receiver) return close("its owner is gone");
  if (frame.header.payload_bytes > 0) {
    const Bytes payload = bytes.subspan(kHeaderBytes + frame.header.body_bytes);
    if (const auto placed = receiver->place(frame.header)) {
      std::size_t done = 0;
      for (const MutableBytes part : *placed) {
        std::copy_n(payload.data() + done, part.size(), part.data());
        done += part.size();
      }
    } else {
      frame.payload = std::shared_ptr<std::byte>(new std::byte[payload.size()], std::default_delete<std::byte[]>());
      std::copy(payload.begin(), payload.end(), frame.payload.get());
    }
  }
  frame.body.assign(record, kHeaderBytes, frame.header.body_bytes);
  receiver->on_frame(std::move(frame));
}

bool ShmChannel::prepare_sleep() {
  incoming_.set_sleeping(true);
  return incoming_.empty() && !closed();
}

void ShmChannel::awake() { incoming_.set_sleeping(false); }

void ShmChannel::pump(const std::atomic<bool>& done, Deadline deadline) {
  Spinner spinner;
  while (!done.load(std::memory_order_acquire) && !closed()) {
    if (!poll_mutex_.try_lock()) {  // another thread moves the frames, ours among them
      if (!spinner.spin()) std::this_thread::sleep_for(20us);
      if (deadline.passed()) return;
      continue;
    }
    const MutexLock lock(poll_mutex_, std::adopt_lock);
    if (poll() > 0) {
      spinner.reset();
      continue;
    }
    if (spinner.spin()) continue;
    check_socket();
    if (deadline.passed()) return;
    sleep(deadline);
    spinner.reset();
  }
}

void ShmChannel::sleep(Deadline deadline) {
  if (prepare_sleep()) {
    const auto longest = has_backlog() ? 1ms : 200ms;
    const auto left = std::min(longest, std::chrono::ceil<std::chrono::milliseconds>(deadline.left()));
    pollfd waiting[2] = {{options_.own_doorbell->descriptor(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
    ::poll(waiting, 2, static_cast<int>(left.count()));
    options_.own_doorbell->silence();
  }
  awake();
}

}  // namespace trireme::net
