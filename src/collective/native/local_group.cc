#include "collective/native/local_group.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "net/control_socket.h"

namespace trireme::collective {
namespace {

constexpr std::size_t kRingBytes = 256u << 10;
constexpr std::size_t kPage = 4096;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::milliseconds limit) {
  const timespec time{.tv_sec = limit.count() / 1000, .tv_nsec = (limit.count() % 1000) * 1'000'000};
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, seen, &time, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

}  // namespace

/// What others read, with one cache line for each part that changes independently.
struct LocalGroup::Control {
  struct alignas(64) Slot {
    CallSignature call;
    std::atomic<std::uint32_t> round;  ///< that this rank has reached; beside the call, so that one fetch brings both
    alignas(64) std::uint64_t table[2 * kMaxRanks];
  } slots[2];
  alignas(64) std::atomic<std::uint32_t> sleeping;
  std::atomic<std::uint32_t> doorbell;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free);

/// A ring of bytes with one writer and one reader.
struct LocalGroup::RingHeader {
  alignas(64) std::atomic<std::uint64_t> written;
  alignas(64) std::atomic<std::uint64_t> read;
  alignas(64) std::byte bytes[kRingBytes];
};

/// Two rings, one in each rank's segment: the writer owns it.
class LocalGroup::RingPipe final : public Pipe {
 public:
  RingPipe(LocalGroup& group, std::uint32_t peer, Use use)
      : group_(group),
        peer_(peer),
        out_(*reinterpret_cast<RingHeader*>(group.peers_[group.index_]->bytes().data() + group.ring_offset(peer, use))),
        in_(*reinterpret_cast<RingHeader*>(group.peers_[peer]->bytes().data() + group.ring_offset(group.index_, use))) {
  }

  std::size_t try_send(Bytes bytes) override {
    const std::uint64_t used = checked(written_ - out_.read.load(std::memory_order_acquire));
    const std::size_t count = std::min<std::size_t>(kRingBytes - used, bytes.size());
    if (count == 0) return 0;
    const std::size_t at = written_ % kRingBytes;
    const std::size_t first = std::min(count, kRingBytes - at);
    std::memcpy(out_.bytes + at, bytes.data(), first);
    std::memcpy(out_.bytes, bytes.data() + first, count - first);
    written_ += count;
    out_.written.store(written_, std::memory_order_seq_cst);
    group_.ring(peer_);
    return count;
  }

  std::size_t try_recv(MutableBytes bytes) override {
    const std::uint64_t there = checked(in_.written.load(std::memory_order_acquire) - read_);
    const std::size_t count = std::min<std::size_t>(there, bytes.size());
    if (count == 0) return 0;
    const std::size_t at = read_ % kRingBytes;
    const std::size_t first = std::min(count, kRingBytes - at);
    std::memcpy(bytes.data(), in_.bytes + at, first);
    std::memcpy(bytes.data() + first, in_.bytes, count - first);
    read_ += count;
    in_.read.store(read_, std::memory_order_seq_cst);
    group_.ring(peer_);
    return count;
  }

  int descriptor() const override { return -1; }

 private:
  /// Returns how many bytes are in a ring, by a position that the peer wrote.
  std::uint64_t checked(std::uint64_t bytes) const {
    if (bytes > kRingBytes) [[unlikely]] {
      fail<Corrupt>("the rank with index {} on this host wrote an impossible position of its ring: it is broken",
                    peer_);
    }
    return bytes;
  }

  LocalGroup& group_;
  std::uint32_t peer_;
  RingHeader& out_;
  RingHeader& in_;
  // Our own positions; what the rings hold is for the peer, which could change it there.
  std::uint64_t written_ = 0;
  std::uint64_t read_ = 0;
};

namespace {

constexpr std::size_t stages_offset(std::size_t control_bytes) { return round_up(control_bytes, kPage); }

}  // namespace

LocalGroup::LocalGroup(std::uint32_t index, std::vector<std::unique_ptr<net::RawStream>> sockets, Deadline deadline)
    : index_(index), sockets_(std::move(sockets)) {
  if (sockets_.size() > kMaxRanks) {
    fail<InvalidArgument>("{} ranks on one host: at most {} can share memory; use --transport tcp", sockets_.size(),
                          kMaxRanks);
  }
  const auto ranks = static_cast<std::uint32_t>(sockets_.size());
  peers_ = exchange(0, net::Segment::create("trireme-rank", ring_offset(ranks, Use::kCollectives)), deadline, [] {});
}

LocalGroup::Control& LocalGroup::control(std::uint32_t i) const {
  return *reinterpret_cast<Control*>(peers_[i]->bytes().data());
}

std::size_t LocalGroup::ring_offset(std::uint32_t to, Use use) const {
  const std::size_t number = 2 * std::size_t{to} + static_cast<std::size_t>(use);
  return stages_offset(sizeof(Control)) + 4 * kStageBytes + number * round_up(sizeof(RingHeader), kPage);
}

std::uint32_t LocalGroup::arrive() {
  ++round_;
  control(index_).slots[round_ % 2].round.store(round_, std::memory_order_seq_cst);
  for (std::uint32_t i = 0; i < count(); ++i) {
    if (i != index_) ring(i);
  }
  return round_;
}

bool LocalGroup::all_arrived(std::uint32_t round) const {
  for (std::uint32_t i = 0; i < count(); ++i) {
    // No rank is two rounds ahead, so the slot holds this round or the one before last.
    if (control(i).slots[round % 2].round.load(std::memory_order_acquire) != round) return false;
  }
  return true;
}

CallSignature& LocalGroup::call(std::uint32_t i, std::uint32_t round) { return control(i).slots[round % 2].call; }

std::span<std::uint64_t> LocalGroup::table(std::uint32_t i, std::uint32_t round) {
  return control(i).slots[round % 2].table;
}

std::byte* LocalGroup::stage(std::uint32_t i, std::uint32_t round) {
  return peers_[i]->bytes().data() + stages_offset(sizeof(Control)) + (round % 2) * kStageBytes;
}

std::byte* LocalGroup::result(std::uint32_t i, std::uint32_t round) { return stage(i, round) + 2 * kStageBytes; }

std::uint32_t LocalGroup::prepare_sleep() {
  Control& own = control(index_);
  const std::uint32_t seen = own.doorbell.load(std::memory_order_acquire);
  own.sleeping.store(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return seen;
}

void LocalGroup::sleep_on_doorbell(std::uint32_t seen, std::chrono::milliseconds limit) {
  futex_wait(control(index_).doorbell, seen, limit);
}

void LocalGroup::end_sleep() { control(index_).sleeping.store(0, std::memory_order_relaxed); }

void LocalGroup::ring(std::uint32_t i) {
  Control& peer = control(i);
  if (peer.sleeping.load(std::memory_order_seq_cst) == 0) [[likely]]
    return;
  peer.doorbell.fetch_add(1, std::memory_order_release);
  futex_wake(peer.doorbell);
}

std::unique_ptr<Pipe> LocalGroup::make_pipe(std::uint32_t i, Use use) {
  return std::make_unique<RingPipe>(*this, i, use);
}

std::vector<std::shared_ptr<net::Segment>> LocalGroup::exchange(std::uint64_t id,
                                                                const std::shared_ptr<net::Segment>& own,
                                                                Deadline deadline, const std::function<void()>& check) {
  using Type = net::ControlMessage::Type;
  std::vector<std::shared_ptr<net::Segment>> segments(sockets_.size());
  segments[index_] = own;
  for (const auto& socket : sockets_) {
    if (socket) net::send_control(socket->descriptor(), Type::kSegment, id, own->bytes().size(), {own->descriptor()});
  }
  std::string disagreement;
  for (std::size_t i = 0; i < sockets_.size(); ++i) {
    if (!sockets_[i]) continue;
    std::optional<net::ControlMessage> message;
    while (!(message = net::receive_control(sockets_[i]->descriptor()))) {
      check();
      if (deadline.passed()) fail<Timeout>("{} did not share its memory in time", sockets_[i]->peer());
      pollfd entry{sockets_[i]->descriptor(), POLLIN, 0};
      ::poll(&entry, 1, 20);
    }
    if (message->type != Type::kSegment || message->id != id || message->bytes != own->bytes().size()) {
      disagreement = fmt::format("{} shares {} bytes where this rank shares {}: all ranks must allocate the same",
                                 sockets_[i]->peer(), message->bytes, own->bytes().size());
      continue;  // still receives what the others have sent: the next allocation must not find it
    }
    segments[i] =
        net::Segment::map(std::move(message->descriptors.at(0)), message->bytes, net::Segment::Access::kReadWrite);
  }
  if (!disagreement.empty()) fail<InvalidArgument>("{}", disagreement);
  return segments;
}

std::shared_ptr<std::byte> LocalGroup::allocate(std::size_t bytes, Deadline deadline,
                                                const std::function<void()>& check) {
  std::erase_if(allocations_, [](const auto& entry) { return entry.second.own.expired(); });
  const std::uint64_t id = next_allocation_++;
  const auto own = net::Segment::create("trireme-shared", bytes);
  own->use_large_pages();  // before the others map it
  Allocation allocation{.own = own, .segments = exchange(id, own, deadline, check)};
  for (const auto& segment : allocation.segments) segment->use_large_pages();
  allocation.segments[index_] = nullptr;
  allocations_.emplace(id, std::move(allocation));
  return {own, own->bytes().data()};
}

std::pair<std::uint64_t, std::uint64_t> LocalGroup::locate(const std::byte* data, std::size_t bytes) const {
  for (const auto& [id, allocation] : allocations_) {
    const auto own = allocation.own.lock();
    if (!own) continue;
    const MutableBytes memory = own->bytes();
    if (data >= memory.data() && data + bytes <= memory.data() + memory.size()) {
      return {id, static_cast<std::uint64_t>(data - memory.data())};
    }
  }
  return {0, 0};
}

std::byte* LocalGroup::at(std::uint32_t i, std::uint64_t allocation, std::uint64_t offset, std::size_t bytes) const {
  const auto found = allocations_.find(allocation);
  const auto segment = found == allocations_.end() ? nullptr
                       : i == index_               ? found->second.own.lock()
                                                   : found->second.segments[i];
  const std::size_t room = segment ? segment->bytes().size() : 0;
  if (offset > room || bytes > room - offset) {
    fail<Corrupt>("the rank with index {} on this host has its data at {} of allocation {}, which has {} bytes here", i,
                  offset, allocation, room);
  }
  return segment->bytes().data() + offset;
}

}  // namespace trireme::collective
